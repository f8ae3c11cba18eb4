"""Do the claims hold? Each claim with its hardest test."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.claims.verdicts import (
    NO_CLAIM,
    NOT_TESTABLE,
    VIOLATED,
    divisor,
    smallest_p_value,
    with_overall,
)
from epsilometer.auditing.results.diagnostics import CHOSEN
from epsilometer.report.rows import REACH
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.report.wording import at_budgets, listed, p_value
from epsilometer.studies.texts.report.exact_loss import claims_sentence
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section:
    """Each claim with its hardest test, and who claims nothing."""
    explained = (
        "A claim has one verdict, by attacks and laws together. **Violated**: an attack was right more often than the "
        "claim allows, by more than chance explains, or a law goes beyond it; the claim is wrong, or the "
        "implementation is. **Not refuted** is no proof: a better attack or more trials may refute the claim yet. "
        "**Not testable**: right guesses alone would not refute it, and no law could be computed."
    )
    table = claim_table(results.estimates, results.verdicts, results.params.audit.alpha)
    silent = unclaimed(results.estimates)
    words = [*([explained] if table.rows else []), *claims_sentence(results.exact)]
    words += [f"No claim is made by {silent}."] if silent else []
    return Section("claims", "Claims", "Do the claims hold?", words, blocks=[table])


def claim_table(estimates: pl.DataFrame, verdicts: pl.DataFrame, alpha: float) -> Table:
    """Each claim with its hardest test, the one that came nearest to refuting it; violated claims first.

    A claim that no test here could refute has none, but the trials that it takes. verdicts: as `verdicts.overall` gives
    them; the tests here may be one part of a verdict.
    """
    judged = estimates.filter(pl.col("verdict") != NO_CLAIM, ~pl.col("attack").is_in(CHOSEN))  # others repeat these
    testable, claim = pl.col("verdict") != NOT_TESTABLE, ["mechanism", "epsilon", "claim"]
    count = pl.min("trials_needed").over(claim)
    hardest = (
        judged.with_columns(
            open=testable,
            allowed=pl.col("expected") / pl.col("trials"),
            excess=(pl.col("successes") - pl.col("expected")) / pl.col("trials"),
            tests=testable.sum().over(claim),
            violations=(pl.col("verdict") == VIOLATED).sum().over(claim),
            refutable=pl.max("refutable").over(claim),
            needed=pl.when(count > REACH)
            .then(pl.lit(f"more than {REACH:,}"))
            .otherwise(count.map_elements("{:,}".format, pl.String)),
        )
        .sort("open", "p_value", "excess", "dataset", "attack", descending=[True, False, True, False, False])
        .unique(claim, keep="first", maintain_order=True)
        .with_columns(pl.when("open").then(pl.col("attack", "successes", "expected", "p_value")))
        .pipe(with_overall, verdicts)
        .sort(pl.col("overall") != VIOLATED, ~pl.col("open"), "mechanism", "epsilon")
    )
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | claim: {claim} | verdict: {overall} | by: {overall_by} | "
        "violated in: {violations} of {tests} | hardest test: {attack} on {dataset} | "
        "correct guesses: {successes:,} ({success_rate:share}) | "
        "allowed on average: {expected:,.0f} ({allowed:share}) | p-value: {p_value:p} | "
        "refutable loss: {refutable:proved} | needed trials: {needed}"
    )
    shared = divisor([smallest_p_value(*row) for row in judged.select("trials", "expected").iter_rows()], alpha)
    caption = (
        f"{judged.select(testable.sum()).item():,} of {len(judged):,} tests could come out either way, each at level "
        f"{alpha:g} / {shared:,} = {p_value(alpha / shared)} (Tarone 1990), so that the chance of any false “violated” "
        f"is at most {100 * alpha:g} %. Right guesses alone refute claims up to the refutable loss, and this one from "
        "the needed trials on."
    )
    return Table("Each claim with its hardest test", caption, records(hardest, columns), page_only=True)


def unclaimed(estimates: pl.DataFrame) -> str:
    """The mechanisms without a claim; some have one, but not at every budget."""
    budgets = estimates.group_by("mechanism", "epsilon").agg(silent=(pl.col("verdict") == NO_CLAIM).all())
    silent = budgets.with_columns(never=pl.col("silent").all().over("mechanism")).filter("silent")
    never = silent.filter("never")["mechanism"].unique().sort().to_list()
    partly = silent.filter(~pl.col("never")).select("mechanism", "epsilon").rows()
    return listed([*never, *([at_budgets(partly, [])] if partly else [])])
