"""The remarks of the leaderboard's rows, and the cost of its cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from epsilometer.auditing.ceilings.share import BY_LAW
from epsilometer.project.origin import Origin
from epsilometer.studies.leaderboard.learning import WORDS
from epsilometer.studies.leaderboard.report.rows import standing
from epsilometer.studies.leaderboard.report.section import _effort
from epsilometer.studies.leaderboard.report.standing import Board, standings
from epsilometer.studies.leaderboard.tables import AVERAGE, EQUAL, FIGURES, FRONTIERS, PLAIN, ROWS, TAIL

ONE_TEXT = 0.3
BELOW, AROUND, ABOVE = [0.2, 0.21, 0.22, 0.2, 0.21], [0.28, 0.31, 0.27, 0.32, 0.29], [0.4, 0.41, 0.4, 0.42, 0.41]


def frame(schema: Any, row: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema}], schema=dict(schema))


@pytest.mark.parametrize(("cosines", "said"), [(BELOW, True), (AROUND, False), (ABOVE, False)])
def test_less_than_one_sentence_is_kept_where_the_splits_show_it(cosines: list[float], said: bool) -> None:
    """The mean of AROUND is below the sentence's, by chance as well as not."""
    (row,) = standing(board(cosines), EQUAL)
    assert ("its cosine is below that of one sentence for all" in row["remark"]) == said


@pytest.mark.parametrize(
    ("of_loss", "reason", "said"),
    [(2.0, None, True), (1.0, None, False), (2.0, "its loss jumps from 0.9 to 1.2 nats", False)],
    ids=["a smaller budget", "the same budget", "smaller for another reason"],
)
def test_a_row_says_that_its_tail_binds(of_loss: float, reason: str | None, said: bool) -> None:
    (row,) = standing(board(ABOVE, of_loss=of_loss, reason=reason), EQUAL)
    assert ("its tail binds" in row["remark"]) == said


@pytest.mark.parametrize(
    ("f1", "shown"),
    [
        ([0.28, 0.31, 0.27, 0.32, 0.29], "0.294 ± 0.043"),
        ([0.2, 0.3, 0.1, 0.2, 0.2], "not testable"),  # ± 0.146: wider than 0.2, though not beyond 0
        ([0.9, 0.1, 0.9, 0.1, 0.5], "not testable"),
        ([0.0] * 5, "0.000 ± 0.000"),
    ],
)
def test_an_interval_wider_than_f1_is_not_testable(f1: list[float], shown: str) -> None:
    (row,) = standing(board(ABOVE, f1=f1), EQUAL)
    assert row["F1 words"] == shown


def test_a_row_names_the_other_losses_at_which_it_is_the_row() -> None:
    first = board(ABOVE)
    repeated = [{"loss": 2.0, "tier": None}, {"loss": 4.0, "tier": 3}]
    rows = first.rows.with_columns(repeated=pl.Series([repeated] * len(first.rows)))
    (row,) = standing(replace(first, rows=rows), EQUAL)
    assert row["remark"] == "the same at 2 and 4 (tier 3)"


def test_what_cells_took_is_summed_over_data_sets() -> None:
    """Of songs one of three cells has no origin, and one has not run; poems share nothing."""
    hour, half = (Origin("0123456789ab", "2026-11-29 01:00", "a machine", 60.0 * minutes) for minutes in (60, 30))
    absent, cells = [("theirs", 1.0)], {("mine", 1.0): hour, ("mine", 2.0): None}
    songs = replace(board(ABOVE), absent=absent, origins=cells, prepared=half)
    poems = replace(board(ABOVE), dataset="poems", origins={("mine", 1.0): replace(half, seconds=3600.0 * 24)})
    shown = _effort([songs, poems])
    assert [[*row.values()] for row in shown.rows] == [
        ["songs", "3", "2", "1", "90"],
        ["poems", "1", "1", "1", "1,440"],
        ["all", "4", "3", "2", "1,530"],
    ]
    assert shown.caption.endswith("On a machine.")


def board(
    cosines: list[float], *, of_loss: float = 1.0, reason: str | None = None, f1: list[float] | None = None
) -> Board:
    """One mechanism at budget 1. of_loss: its budget of exactly the loss; reason: why the first is none such."""
    of = {"mechanism": "mine", "loss": 1.0, "lengths": EQUAL, "budget": TAIL}
    mean = sum(cosines) / len(cosines)
    worth = {"average": 1.0, "cosine": mean, "ceiling": 0.7, "share": (mean - ONE_TEXT) / (0.7 - ONE_TEXT)}
    at_loss = of | worth | {"control": False, "by": BY_LAW, "delta_at_4": 0.0, "reason": reason}
    both = (at_loss | {"epsilon": 1.0}, at_loss | {"epsilon": of_loss, "budget": AVERAGE})
    rows = pl.concat([frame(ROWS, row) for row in both])
    schema = {**FIGURES, "mechanism": pl.String, "loss": pl.Float64}
    figures = frame(schema, of | {"figure": "cosine", "by_law": False, "values": cosines})
    if f1 is not None:
        taught = {"figure": "task", "learner": WORDS, "texts": 10, "by_law": False, "values": f1}
        figures = pl.concat([figures, frame(schema, of | taught)])
    plain, frontiers = pl.DataFrame(schema=dict(PLAIN)), frame(FRONTIERS, {"lengths": EQUAL, "one_text": ONE_TEXT})
    return Board("songs", standings(rows, figures), figures, plain, frontiers, [10, 30], [], {}, None)
