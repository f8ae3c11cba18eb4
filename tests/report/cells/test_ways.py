"""Three ways to share: figures for those that were measured, and for the others what each protects."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.auditing.schemas import DECISIONS
from epsilometer.cells.tables import WAYS
from epsilometer.report.cells import ways
from tests.support.audited import audit, bare, estimates, table_of, text_of

ROWS = [
    ("queries", "intent", "public", None, None, 64, 0.655, None),
    ("queries", "intent", "rewrites", "mvc", 0.5, 220, 0.125, None),
    ("queries", "intent", "rewrites", "mvc", 5.0, 220, 0.375, None),
    ("queries", "intent", "release", None, 1.0, 900, 0.525, 0.5),
    ("queries", "intent", "release", None, 4.0, 900, 0.775, 2.0),
]
TABLE = table_of(WAYS, ROWS)


def decisions(*of: str) -> pl.DataFrame:
    """The decision on mvc at .5 and 5, with a loss of at least .75 and at most 1.5 nats."""
    rows = [
        {"dataset": "queries", "mechanism": "mvc", "epsilon": epsilon, "control": False, "limit": limit, "low": low,
         "high": high, "decision": decision}
        for epsilon, decision in zip((0.5, 5.0), of, strict=True)
        for limit, low, high in (("all", None, None), ("loss", 0.75, 1.5))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=dict(DECISIONS))


@pytest.mark.parametrize(
    ("decided", "said"),
    [
        (("beyond", "beyond"), "0.38 with mvc at ε = 5, beyond a limit"),
        (("within", "beyond"), "0.12 with mvc at ε = 0.5, within the limits"),
        (("open", "open"), "0.38 with mvc at ε = 5, limits not shown to be kept"),
    ],
)
def test_the_first_screen_has_the_figure_and_the_command_of_each(decided: tuple[str, str], said: str) -> None:
    """The best rewrites within the limits are named; without such, the best, with the status of the limits."""
    shown = ways.section(audit(ways=TABLE, decisions=decisions(*decided)))
    assert shown is not None
    assert {topic for topic, _ in shown.first_screen} == {"Three ways: queries"}
    public, rewrites, release = (sentence for _, sentence in shown.first_screen)
    assert "F1 0.66 (intent) from 64" in public
    assert said in rewrites
    assert "`epsilometer rewrite`" in rewrites
    assert "`epsilometer release`" in release
    assert "0.53 at ε = 1, at most 62.3 of 100" in release


def test_a_row_has_the_loss_of_its_way_and_the_status_of_the_limits() -> None:
    shown = ways.section(audit(ways=TABLE, decisions=decisions("open", "beyond")))
    assert shown is not None
    (table,) = shown.tables
    assert len(table.columns) == 7
    assert [row["limits"] for row in table.rows] == ["within", "open", "beyond", "within", "beyond"]
    assert [row["right guesses of 100"] for row in table.rows] == ["50", *["at most 81.8"] * 2, "62.3", "88.1"]
    assert [row["F1"] for row in table.rows] == ["0.655", "0.125", "0.375", "0.525", "0.775"]


def test_without_figures_the_ways_stand_with_what_they_protect() -> None:
    """No figure is shown that was not measured in this run."""
    results = bare(estimates())
    text = text_of(ways.section(results), results)
    assert "epsilometer release" in text
    assert "epsilometer rewrite" in text
    assert not any(letter.isdigit() for letter in text)
