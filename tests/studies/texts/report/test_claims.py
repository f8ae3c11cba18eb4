"""The claims and their hardest tests."""

from __future__ import annotations

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, trials_needed
from epsilometer.studies.texts.report import claims
from tests.support.audited import LEVEL, audit, frame, text_of


def test_violated_claims_stand_first() -> None:
    results = audit()
    text = text_of(claims.section(results), results)
    assert text.count("✕ violated") == 1
    assert "4 of 4" in text  # both attacks on both data sets
    assert text.index("✕ violated") < text.index("0 of 4")
    # 900 and 700 of 1,000 allowed are testable with 1,000 right guesses, and 995 are not: 3 x 4 + 3 x 4 of 36 tests.
    assert "24 of 36 tests could come out either way, each at level 0.01 / 24 = 4 × 10⁻⁴" in text
    (table,) = claims.section(results).tables
    beyond = [row for row in table.rows if row["mechanism"] == "mvc"]
    assert beyond == list(table.rows[-3:]), "after those that were tested"
    assert {(row["violated in"], row["hardest test"], row["p-value"]) for row in beyond} == {("0 of 0", "–", "–")}
    assert {row["needed trials"] for row in beyond} == {f"{trials_needed(0.995, LEVEL):,}"}
    assert {row["refutable loss"] for row in beyond} == {"4.63"}
    assert "No claim is made by identity." in text


def test_mechanisms_that_claim_something_at_some_budgets_only() -> None:
    table = frame(
        ("queries", "gumbel", 1.0, "embedding", 500, None, NO_CLAIM),
        ("queries", "gumbel", 50.0, "embedding", 500, 900.0, NOT_REFUTED),
        ("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM),
    )
    assert claims.unclaimed(table) == "identity and gumbel at ε = 1"
