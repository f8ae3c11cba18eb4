"""The claims and what came of them."""

from __future__ import annotations

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_REFUTED, NOT_TESTABLE, trials_needed
from epsilometer.report.cells import claims
from tests.support.audited import HOSTILE, LEVEL, audit, frame, text_of


def test_violated_claims_stand_first() -> None:
    results = audit()
    text = text_of(claims.section(results), results)
    assert text.count("✕ violated") == 1
    # Claims that allow 900 or 700 of 1,000 right guesses are testable; 995 is not. So 3 x 4 + 3 x 4 of 36 tests are.
    assert "24 of 36 tests could have refuted their claim" in text
    assert f"with {trials_needed(0.995, LEVEL):,} trials, more could" in text
    (table,) = claims.section(results).tables
    assert (table.rows[0]["mechanism"], table.rows[0]["budgets"]) == (HOSTILE, "5")
    beyond = [row for row in table.rows if row["mechanism"] == "mvc"]
    assert [(row["verdict"], row["budgets"]) for row in beyond] == [(NOT_TESTABLE, "0.5, 5 and 2,500")]
    assert "Mechanisms without a claim: identity." in text


def test_mechanisms_that_claim_something_at_some_budgets_only() -> None:
    table = frame(
        ("queries", "gumbel", 1.0, "embedding", 500, None, NO_CLAIM),
        ("queries", "gumbel", 50.0, "embedding", 500, 900.0, NOT_REFUTED),
        ("queries", "identity", 1.0, "embedding", 1000, None, NO_CLAIM),
    )
    assert claims.unclaimed(table) == "identity and gumbel at ε = 1"
