"""The worst case of each claim, with its witness."""

from __future__ import annotations

from epsilometer.auditing.claims.verdicts import NOT_REFUTED
from epsilometer.studies.texts.report import worst_case
from tests.support.audited import HOSTILE, audit, bare, estimates, tables_of_all, text_of


def test_worst_cases_name_their_witness() -> None:
    results = audit()
    worst = text_of(worst_case.section(results), results)
    assert f"Beyond its claim: {HOSTILE} at ε = 5." in worst
    assert f"cat for {HOSTILE} rather than dog" in worst
    assert "∞" in worst
    assert "Monte Carlo, 4,000 draws for each of 24 words; refutes claims up to 4.58; no draw could refute it" in worst
    assert "bird for cat rather than dog" not in worst  # a witness of a claim that was not tested shows nothing
    assert "17.00 (draws)" in worst
    assert "−∞" in worst  # the slack where an output is possible under one input only
    assert "largest found, by its stated law, 200 inputs; over all words at least 1.00 within the claim" in worst
    assert "exact, by its stated law, 1,000 inputs" in worst
    assert worst.index("✕ violated") < worst.index("Monte Carlo, 4,000")  # in the table, after the words above it
    sound = tables_of_all()["claims"].filter(verdict=NOT_REFUTED)
    assert worst_case.sentence(sound).startswith("In none of the 1 laws")
    assert "could be computed" in worst_case.sentence(sound.clear())


def test_without_claims_there_is_no_section() -> None:
    assert worst_case.section(bare(estimates())) is None
