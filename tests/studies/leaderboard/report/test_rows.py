"""What the remarks of the leaderboard's rows say."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from epsilometer.auditing.ceilings.share import BY_LAW
from epsilometer.studies.leaderboard.report.rows import standing
from epsilometer.studies.leaderboard.report.standing import Board, ranked
from epsilometer.studies.leaderboard.tables import EQUAL, FIGURES, FRONTIERS, PLAIN, ROWS, TAIL

ONE_TEXT = 0.3
BELOW, AROUND, ABOVE = [0.2, 0.21, 0.22, 0.2, 0.21], [0.28, 0.31, 0.27, 0.32, 0.29], [0.4, 0.41, 0.4, 0.42, 0.41]


def frame(schema: Any, row: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema}], schema=dict(schema))


@pytest.mark.parametrize(("cosines", "said"), [(BELOW, True), (AROUND, False), (ABOVE, False)])
def test_less_than_one_sentence_is_kept_where_the_splits_show_it(cosines: list[float], said: bool) -> None:
    """The mean of AROUND is below the sentence's, by chance as well as not."""
    of = {"mechanism": "mine", "loss": 1.0, "lengths": EQUAL, "budget": TAIL}
    mean = sum(cosines) / len(cosines)
    worth = {"average": 1.0, "cosine": mean, "ceiling": 0.7, "share": (mean - ONE_TEXT) / (0.7 - ONE_TEXT)}
    rows = frame(ROWS, of | worth | {"epsilon": 1.0, "control": False, "by": BY_LAW, "delta_at_4": 0.0})
    schema = {**FIGURES, "mechanism": pl.String, "loss": pl.Float64}
    figures = frame(schema, of | {"figure": "cosine", "by_law": False, "values": cosines})
    plain, frontiers = pl.DataFrame(schema=dict(PLAIN)), frame(FRONTIERS, {"lengths": EQUAL, "one_text": ONE_TEXT})
    board = Board("songs", ranked(rows, figures), figures, plain, frontiers, [10, 30], [], {}, None)
    (row,) = standing(board, EQUAL)
    assert ("keeps less than one sentence for all" in row["remark"]) == said
