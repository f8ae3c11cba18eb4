"""The worst case of each claim, with its witness."""

from __future__ import annotations

from epsilometer.auditing.claims.verdicts import NOT_REFUTED
from epsilometer.studies.texts.report import worst_case
from tests.support.audited import HOSTILE, audit, bare, estimates, tables_of_all, text_of


def test_worst_cases_name_their_witness() -> None:
    results = audit()
    section = worst_case.section(results)
    assert section is not None
    worst = text_of(section, results)
    assert f"Beyond its claim: {HOSTILE} at ε = 5." in worst
    assert f"cat for {HOSTILE} rather than dog" in worst
    assert "∞" in worst
    (_, table) = section.tables
    by_draws = next(row for row in table.rows if row["method"] == "Monte Carlo")
    assert (by_draws["draws"], by_draws["inputs"], by_draws["refutes up to"]) == ("4,000", "24", "4.58")
    assert by_draws["reason"] == "no draw could refute it"
    assert "bird for cat rather than dog" not in worst  # a witness of a claim that was not tested shows nothing
    assert "17.00 (draws)" in worst
    assert "−∞" in worst  # the slack where an output is possible under one input only
    by_law = {row["method"]: (row["inputs"], row["beyond over all words"]) for row in table.rows}
    assert by_law["largest found"] == ("200", "-1.00")
    assert by_law["exact"] == ("1,000", "–")
    assert worst.index("✕ violated") < worst.index("Monte Carlo")  # in the table, after the words above it
    sound = tables_of_all()["claims"].filter(verdict=NOT_REFUTED)
    assert worst_case.sentence(sound).startswith("In none of the 1 laws")
    assert "could be computed" in worst_case.sentence(sound.clear())


def test_without_claims_there_is_no_section() -> None:
    assert worst_case.section(bare(estimates())) is None
