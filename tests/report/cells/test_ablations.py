"""What the audit's own settings do."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.report.cells import ablations
from epsilometer.report.figures import Figure
from epsilometer.report.table import Table
from tests.support.audited import HOSTILE, audit, bare, estimates, tables_of_all, text_of
from tests.support.refusals import refused


def test_tokens_stand_with_their_probabilities_and_parts() -> None:
    results = audit()
    text = text_of(ablations.section(results), results)
    assert "flights 50.0\N{NO-BREAK SPACE}%, " + HOSTILE + " 25.0\N{NO-BREAK SPACE}%" in text
    cut = text[text.index("How mechanisms split a text of queries") :]
    assert cut.index("3flights · to · unknown") < cut.index("4flights · to · bos · " + HOSTILE)


@pytest.mark.parametrize("name", ["first_tokens", "tokens"])
def test_tokens_of_private_data_are_refused(name: str) -> None:
    private = tables_of_all()[name].with_columns(dataset=pl.lit("letters"))
    with refused("EPS-R020", "letters"):
        ablations.section(audit(**{name: private}))


def test_without_ablations_there_is_no_section() -> None:
    assert ablations.section(bare(estimates())) is None


def test_a_plug_in_value_that_is_infinite_is_above_the_ceiling() -> None:
    results = audit()
    section = ablations.section(results)
    assert section is not None
    figure, table, *_ = section.blocks
    assert isinstance(figure, Figure)
    assert "Infinity" not in figure.json
    assert isinstance(table, Table)
    assert {row["plug-in by two rates"] for row in table.rows} == {"above 4.50"}
    assert {row["plug-in"] for row in table.rows} == {"0.80"}
