"""The worst case of each claim."""

from __future__ import annotations

import polars as pl
import pytest

from epsilometer.auditing.claims.verdicts import NOT_CHECKED, NOT_REFUTED, VIOLATED, with_overall
from epsilometer.auditing.schemas import CLAIMS
from epsilometer.report.cells import worst_case
from tests.support.audited import HOSTILE, audit, bare, estimates, tables_of_all, text_of


def test_what_is_beyond_its_claim_is_named() -> None:
    results = audit()
    section = worst_case.section(results)
    assert section is not None
    assert f"The worst case exceeds the claim: {HOSTILE} at ε = 5." in text_of(section, results)
    table, _ = section.tables
    assert table.rows[0]["verdict"] == VIOLATED
    assert table.rows[0]["worst"] == "∞"
    sound = tables_of_all()["claims"].filter(verdict=NOT_REFUTED)
    assert "in none of the 1 laws" in worst_case.sentence(sound)
    assert "could be computed" in worst_case.sentence(sound.clear())


@pytest.mark.parametrize("audited", [VIOLATED, NOT_REFUTED])
def test_the_verdict_is_of_everything_that_tested_the_claim(audited: str) -> None:
    claim = {"mechanism": "m", "epsilon": 2.0}
    row = claim | {"claim": "2 per word", "audited": True, "method": NOT_CHECKED, "verdict": NOT_CHECKED}
    verdicts = pl.DataFrame([claim | {"verdict": audited, "by": "audit"}])
    table = worst_case.worst_cases(with_overall(pl.DataFrame([row], schema=dict(CLAIMS)), verdicts))
    assert [(shown["method"], shown["verdict"]) for shown in table.rows] == [(NOT_CHECKED, audited)]


def test_how_deniable_words_are_is_a_table() -> None:
    section = worst_case.section(audit())
    assert section is not None
    _, words = section.tables
    assert words.off_page
    assert words.in_results
    assert [(row["stays"], row["stays, 5th to 95th percentile"]) for row in words.rows] == [
        ("0.050", "0.000 to 0.100"),
        ("0.400", "0.000 to 0.800"),
    ]
    assert [(row["outputs"], row["outputs, 5th to 95th percentile"]) for row in words.rows] == [
        ("59.5", "40.0 to 80.0"),
        ("56.0", "40.0 to 80.0"),
    ]


def test_without_claims_there_is_no_section() -> None:
    assert worst_case.section(bare(estimates())) is None
