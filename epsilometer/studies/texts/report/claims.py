"""Do the claims hold? Each claim with its hardest test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """The claims that were tested, those that no test could refute, and who claims nothing."""
    estimates, verdicts = results.estimates, results.verdicts
    judged = tested(estimates, verdicts, results.params.audit.alpha)
    beyond = untestable(estimates, verdicts)
    explained = (
        "A claim has one verdict, by attacks and laws together. **Violated**: an attack was right more often than the "
        "claim allows, by more than chance explains, or a law goes beyond it; the claim is wrong, or the "
        "implementation is. **Not refuted** is no proof: a better attack or more trials may refute the claim yet. "
        "**Not testable**: right guesses alone would not refute it, and no law could be computed."
    )
    silent = unclaimed(estimates)
    words = [explained] if judged["rows"] or len(beyond) else []
    return Section(
        id="claims",
        link="Claims",
        heading="Do the claims hold?",
        words=[*words, *claims_sentence(results.exact), *([f"No claim is made by {silent}."] if silent else [])],
        blocks=[hardest(judged), beyond_trials(beyond)],
    )


def hardest(judged: Mapping[str, Any]) -> Table:
    """A row a claim, as `tested` gives them."""
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | claim: {claim} | verdict: {overall} | by: {overall_by} | "
        "violated in: {violations} of {tests} | hardest test: {attack} on {dataset} | "
        "correct guesses: {successes:,} ({success_rate:share}) | "
        "allowed on average: {expected:,.0f} ({allowed:share}) | p-value: {p_value:p}"
    )
    caption = (
        f"{judged['tested']:,} of {judged['tests']:,} tests could come out either way. Each of them is at level "
        f"{judged['alpha']:g} / {judged['divisor']:,} = {p_value(judged['level'])} (Tarone 1990), so that the chance "
        f"of any false “violated” is at most {100 * judged['alpha']:g} %."
    )
    return Table("Each claim with its hardest test", caption, records(judged["rows"], columns), page_only=True)


def beyond_trials(rows: pl.DataFrame) -> Table:
    """A row a claim that no test could refute, as `untestable` gives them."""
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | claim: {claim} | verdict: {overall} | "
        "refutable: {refutable:proved} | needed trials: {needed}"
    )
    caption = (
        "Refutable: the largest claimed loss, in nats, that these trials would refute if every guess were right. "
        "Needed: the trials from which on the claim could be refuted."
    )
    count = pl.col("trials_needed").map_elements(lambda n: f"{n:,}", pl.String)
    needed = pl.when(pl.col("trials_needed") > REACH).then(pl.lit(f"more than {REACH:,}")).otherwise(count)
    table = records(rows.with_columns(needed=needed), columns)
    return Table("Not testable by so many guesses", caption, table, page_only=True)


def tested(estimates: pl.DataFrame, verdicts: pl.DataFrame, alpha: float) -> dict[str, Any]:
    """Each testable claim with its hardest test (the one that came nearest to refuting it); violated claims first.

    overall: the one verdict on the claim, whose the tests here may be one part; verdicts: as `verdicts.overall` gives.
    """
    judged = _judged(estimates)
    tested = judged.filter(pl.col("verdict") != NOT_TESTABLE).with_columns(
        excess=(pl.col("successes") - pl.col("expected")) / pl.col("trials"),
    )
    claim = ["mechanism", "epsilon", "claim"]
    rows = (
        tested.with_columns(
            tests=pl.len().over(claim),
            violations=(pl.col("verdict") == VIOLATED).sum().over(claim),
        )
        .sort("p_value", "excess", "dataset", "attack", descending=[False, True, False, False])
        .unique(claim, keep="first", maintain_order=True)
        .pipe(with_overall, verdicts)
        .sort(pl.col("overall") != VIOLATED, "mechanism", "epsilon")
    )
    least = [smallest_p_value(*row) for row in judged.select("trials", "expected").iter_rows()]
    shared = divisor(least, alpha)
    return {
        "rows": rows.to_dicts(),
        "tests": len(judged),
        "tested": len(tested),
        "alpha": alpha,
        "divisor": shared,
        "level": alpha / shared,
    }


def untestable(estimates: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """The claims that no guesses here could refute: the largest loss that they could, and the trials it takes.

    overall: the one verdict on the claim; verdicts: as `verdicts.overall` gives them.
    """
    claim = ["mechanism", "epsilon", "claim"]
    never = _judged(estimates).filter((pl.col("verdict") == NOT_TESTABLE).all().over(claim))
    rows = never.group_by(claim, maintain_order=True).agg(pl.min("allowed", "trials_needed"), pl.max("refutable"))
    return rows.pipe(with_overall, verdicts).sort("mechanism", "epsilon")


def unclaimed(estimates: pl.DataFrame) -> str:
    """The mechanisms without a claim; some have one, but not at every budget."""
    budgets = estimates.group_by("mechanism", "epsilon").agg(silent=(pl.col("verdict") == NO_CLAIM).all())
    silent = budgets.with_columns(never=pl.col("silent").all().over("mechanism")).filter("silent")
    never = silent.filter("never")["mechanism"].unique().sort().to_list()
    partly = silent.filter(~pl.col("never")).select("mechanism", "epsilon").rows()
    return listed([*never, *([at_budgets(partly, [])] if partly else [])])


def _judged(estimates: pl.DataFrame) -> pl.DataFrame:
    """The tests of claims, those of the strongest apart, which repeat others: with allowed, the share allowed."""
    judged = estimates.filter(pl.col("verdict") != NO_CLAIM, ~pl.col("attack").is_in(CHOSEN))
    return judged.with_columns(allowed=pl.col("expected") / pl.col("trials"))
