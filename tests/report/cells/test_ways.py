"""Three ways to share: figures for those that were measured, and for the others what each protects."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.auditing.schemas import DECISIONS
from epsilometer.cells.tables import WAYS
from epsilometer.report.cells import ways
from tests.support.audited import audit, bare, estimates, table_of, text_of

ROWS = [
    ("queries", "intent", "public", None, None, 64, [0.6, 0.7, 0.65, 0.65, 0.675], 0.0763, None, None),
    ("queries", "intent", "rewrites", "mvc", 0.5, 220, [0.125] * 5, 0.05, 0.5, None),
    ("queries", "intent", "rewrites", "mvc", 5.0, 220, [0.375] * 5, 0.07, 0.2, None),
    ("queries", "intent", "rewrites", "mvc", 6.0, 220, [0.875] * 5, 0.05, 0.1, None),
    ("queries", "intent", "release", None, 1.0, 900, [0.525] * 5, 0.0401, None, 0.5),
    ("queries", "intent", "release", None, 4.0, 900, [0.775] * 5, 0.0001, None, 2.0),
]
TABLE = table_of(WAYS, ROWS)


def decisions(*of: str) -> pl.DataFrame:
    """The decision on mvc at .5 and 5, with a loss of at least .75 and at most 1.5 nats."""
    rows = [
        {"dataset": "queries", "mechanism": "mvc", "epsilon": epsilon, "control": False, "limit": limit, "low": low,
         "high": high, "decision": decision}
        for epsilon, decision in zip((0.5, 5.0, 6.0), (*of, "beyond"), strict=True)
        for limit, low, high in (("all", None, None), ("loss", 0.75, 1.5))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=dict(DECISIONS))


@pytest.mark.parametrize(
    ("decided", "said"),
    [
        (("beyond", "beyond"), "0.12 ± 0.05 with mvc at ε = 0.5, beyond a limit"),
        (("beyond", "within"), "0.38 ± 0.07 with mvc at ε = 5, within the limits"),
        (("open", "open"), "0.12 ± 0.05 with mvc at ε = 0.5, limits not shown to be kept"),
    ],
)
def test_the_first_screen_has_the_figure_and_the_command_of_each(decided: tuple[str, str], said: str) -> None:
    """Rewrites within the limits are named, else any: those with the best F1 on the texts that choose, not on tests."""
    shown = ways.section(audit(ways=TABLE, decisions=decisions(*decided)))
    assert shown is not None
    assert {topic for topic, _ in shown.first_screen} == {"Three ways: queries"}
    public, rewrites, release = (sentence for _, sentence in shown.first_screen)
    assert "F1 0.65 ± 0.08 (intent) from 64" in public
    assert said in rewrites
    assert "`epsilometer rewrite`" in rewrites
    assert "`epsilometer release`" in release
    assert "0.53 ± 0.05 at ε = 1, at most 62.3 of 100" in release


def test_a_row_has_the_loss_of_its_way_and_the_status_of_the_limits() -> None:
    """The half-width of F1 is rounded up, so no figure seems certain."""
    shown = ways.section(audit(ways=TABLE, decisions=decisions("open", "beyond")))
    assert shown is not None
    (table,) = shown.tables
    assert len(table.columns) == 7
    assert [row["limits"] for row in table.rows] == ["within", "open", "beyond", "beyond", "within", "beyond"]
    assert [row["right guesses of 100"] for row in table.rows] == ["50", *["at most 81.8"] * 3, "62.3", "88.1"]
    f1 = ["0.655 ± 0.077", "0.125 ± 0.050", "0.375 ± 0.070", "0.875 ± 0.050", "0.525 ± 0.041", "0.775 ± 0.001"]
    assert [row["F1"] for row in table.rows] == f1


def test_without_figures_the_ways_stand_with_what_they_protect() -> None:
    """No figure is shown that was not measured in this run."""
    results = bare(estimates())
    text = text_of(ways.section(results), results)
    assert "epsilometer release" in text
    assert "epsilometer rewrite" in text
    assert not any(letter.isdigit() for letter in text)
