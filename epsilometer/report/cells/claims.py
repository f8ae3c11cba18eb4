"""The report on claims: each claim with its strongest test."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    NOT_TESTABLE,
    VIOLATED,
)
from epsilometer.auditing.results.diagnostics import CHOSEN
from epsilometer.report.cells.exact_loss import claims_sentence
from epsilometer.report.cells.results import TextResults
from epsilometer.report.rows import REACH
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.report.wording import at_budgets, budget, listed


def section(results: TextResults) -> Section:
    """Return each claim with its strongest test, and the mechanisms without a claim."""
    explained = (
        "A claim has one verdict, from attacks and laws together. **Violated**: an attack was right more often than "
        "the claim allows, by more than chance explains, or the law exceeds it; the claim or the "
        "implementation is wrong. **Not refuted** is not a proof: a better attack or more trials may still refute the "
        "claim. **Not testable**: right guesses in all trials would not refute the claim, and no law could be "
        "computed."
    )
    table = claim_table(results.estimates, results.verdicts)
    silent = unclaimed(results.estimates)
    words = [*([explained] if table.rows else []), *claims_sentence(results.exact)]
    words += [f"Mechanisms without a claim: {silent}."] if silent else []
    return Section("claims", "Claims", "Do the claims hold?", words, blocks=[table], folded=True)


def claim_table(estimates: pl.DataFrame, verdicts: pl.DataFrame) -> Table:
    """Return a row per mechanism, verdict and source of the verdict, with the budgets; violated claims first.

    verdicts: from `verdicts.overall`. The caption counts the tests that could refute a claim.
    """
    claimed = verdicts.filter(pl.col("verdict") != NO_CLAIM)
    # Rows of the strongest attacks repeat rows of single attacks.
    judged = estimates.filter(pl.col("verdict") != NO_CLAIM, ~pl.col("attack").is_in(CHOSEN))
    rows = []
    ordered = claimed.sort(pl.col("verdict") != VIOLATED, "mechanism", "epsilon", maintain_order=True)
    for (mechanism, verdict, by), part in ordered.group_by("mechanism", "verdict", "by", maintain_order=True):
        budgets = listed([budget(epsilon) for epsilon in part["epsilon"]], len(part))
        rows.append({"mechanism": mechanism, "verdict": verdict, "budgets": budgets, "by": by or part["reason"][0]})
    needed = judged.filter(pl.col("trials_needed") <= REACH)["trials_needed"]
    testable = judged.filter(pl.col("verdict") != NOT_TESTABLE)
    caption = f"{len(testable):,} of {len(judged):,} tests could have refuted their claim"
    more = f"; with {max(needed.to_list()):,} trials, more could." if len(needed) else "."
    return Table("Claims", caption + more, rows, page_only=True)


def unclaimed(estimates: pl.DataFrame) -> str:
    """Return the mechanisms without a claim, with budgets if a mechanism has a claim at other budgets."""
    budgets = estimates.group_by("mechanism", "epsilon").agg(silent=(pl.col("verdict") == NO_CLAIM).all())
    silent = budgets.with_columns(never=pl.col("silent").all().over("mechanism")).filter("silent")
    never = silent.filter("never")["mechanism"].unique().sort().to_list()
    partly = silent.filter(~pl.col("never")).select("mechanism", "epsilon").rows()
    return listed([*never, *([at_budgets(partly, [])] if partly else [])])
