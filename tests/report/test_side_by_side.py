"""Comparison of two audits: which figures changed, by how much, and whether beyond chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, VIOLATED
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST
from epsilometer.auditing.schemas import EXACT
from epsilometer.cells.tables import exact_path
from epsilometer.core import tables
from epsilometer.pipeline.measured import measured_in
from epsilometer.reaudit.drift import UNCHANGED, WORSE
from epsilometer.report import side_by_side
from tests.support.audited import frame
from tests.support.commands import call
from tests.support.small_audit import audited

ROWS = (
    ("queries", "mvc", 0.0001, "embedding", 700, 990.0, NOT_REFUTED),
    ("queries", "mvc", 5.0, "length", 1000, 900.0, NOT_REFUTED),
    ("queries", "id_1", 1.0, "length", 500, None, NO_CLAIM),
)


def exact(average: float, pairs: str = "equal length") -> pl.DataFrame:
    """A row of the exact losses, known to within .01."""
    ends = {"average_low": average - 0.01, "average": average, "average_high": average + 0.01}
    return pl.DataFrame(
        [{"dataset": "queries", "mechanism": "mvc", "epsilon": 5.0, "pairs": pairs} | ends], schema=dict(EXACT)
    )


@pytest.mark.parametrize("seed", [0, 1])  # with the same trials, and with others
def test_what_moved_beyond_chance_comes_first(tmp_path, capsys, seed: int) -> None:
    """Right are half of what is hidden and all that is shown: .75 against .95 of 400, 8 standard errors apart.

    With other trials `same` moves with probability .01 at most; with the same ones it cannot.
    """
    first, other = audited(tmp_path / "one", 0.5), audited(tmp_path / "other", 0.9, seed)
    code, out, _ = call(capsys, "results", "diff", first, other, "--json")
    assert code == 0
    rows = json.loads(out)
    assert [(row["mechanism"], row["moved"]) for row in rows[:2]] == [("mine", WORSE), ("same", UNCHANGED)]
    assert rows[0]["p_value"] < 1e-6 < side_by_side.LEVEL < rows[1]["p_value"] <= 1
    assert rows[0]["change"] == pytest.approx(math.log(0.95 / 0.05) - math.log(3), abs=0.7)
    assert {row["moved"] for row in rows if row["attack"] == STRONGEST} == {None}
    code, out, _ = call(capsys, "results", "diff", first, other)
    assert (code, "moved" in out.splitlines()[0]) == (0, True)
    assert call(capsys, "results", "diff", first, other, "--out", tmp_path / "both.md")[0] == 0
    assert "claim_2" in (tmp_path / "both.md").read_text(encoding="utf-8")


def test_guesses_among_other_numbers_of_candidates_are_shown_and_not_tested(tmp_path) -> None:
    two = measured_in(audited(tmp_path / "one", 0.5))
    assert side_by_side.moved(two, two)["p_value"].to_list() == [1.0, 1.0]
    three = {row: replace(of, estimate=replace(of.estimate, candidates=3)) for row, of in two.items()}
    assert side_by_side.moved(two, three).is_empty()


def test_bad_folders(tmp_path, capsys) -> None:
    code, _, error = call(capsys, "results", "diff", tmp_path, tmp_path)
    assert code == 2
    assert "estimates.parquet does not exist" in error


def test_rows_that_one_audit_lacks_are_empty() -> None:
    first = frame(*ROWS).filter(~pl.col("attack").is_in(CHOSEN))
    other = frame(("queries", "mvc", 0.0001, "embedding", 990, 990.0, VIOLATED), ROWS[2], ("new", *ROWS[2][1:]))
    tested = pl.DataFrame(
        [("queries", "mvc", 0.0001, "embedding", 1e-9, WORSE), ("queries", "id_1", 1.0, "length", 1.0, UNCHANGED)],
        schema=[*side_by_side.ROW, "p_value", "moved"],
        orient="row",
    )
    both = side_by_side.compare(first, other.filter(~pl.col("attack").is_in(CHOSEN)), tested)
    worse, same, new, gone = both.to_dicts()
    assert (worse["epsilon"], same["mechanism"], new["dataset"], gone["epsilon"]) == (0.0001, "id_1", "new", 5.0)
    assert (new["loss_1"], new["change"], new["moved"]) == (None, None, None)
    assert (same["change"], same["moved"]) == (0.0, UNCHANGED)
    assert worse["change"] == pytest.approx(math.log(99) - math.log(700 / 300))
    assert (worse["moved"], worse["verdict_1"], worse["verdict_2"]) == (WORSE, NOT_REFUTED, VIOLATED)
    assert gone["trials_2"] is None


def test_exact_losses_side_by_side(tmp_path, capsys) -> None:
    """They are apart where their errors do not meet."""
    first, other = pl.concat([exact(3.0), exact(math.inf, "all")]), exact(3.015)
    both = side_by_side.compare_exact(first, other)
    assert both.select("pairs", "average_1", "average_2", "apart").rows() == [
        ("all", math.inf, None, None),
        ("equal length", 3.0, 3.015, False),
    ]
    assert both["change"].to_list() == [None, pytest.approx(0.015)]
    assert side_by_side.compare_exact(exact(3.0), exact(3.03))["apart"].to_list() == [True]
    for name, average in (("one", 3.0), ("two", 4.0)):
        tables.write(exact(average), tmp_path / name / exact_path("queries-mvc"), EXACT)
    _, out, _ = call(capsys, "results", "diff", tmp_path / "one", tmp_path / "two", "--table", "exact", "--json")
    (row,) = json.loads(out)
    assert (row["average_1"], row["average_2"], row["change"], row["apart"]) == (3.0, 4.0, 1.0, True)
