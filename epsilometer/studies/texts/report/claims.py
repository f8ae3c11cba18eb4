"""Do the claims hold? Each claim with its hardest test."""

from __future__ import annotations

from pathlib import Path
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
from epsilometer.report.wording import at_budgets, listed
from epsilometer.studies.texts.report.exact_loss import claims_sentence
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section:
    """The claims that were tested, those that no test could refute, and who claims nothing."""
    estimates, verdicts = results.estimates, results.verdicts
    return Section(
        id="claims",
        link="Claims",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "claims": tested(estimates, verdicts, results.params.audit.alpha),
            "untestable": untestable(estimates, verdicts),
            "unclaimed": unclaimed(estimates),
            "reach": REACH,
            "exact": claims_sentence(results.exact),
        },
    )


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


def untestable(estimates: pl.DataFrame, verdicts: pl.DataFrame) -> list[dict[str, Any]]:
    """The claims that no guesses here could refute: the largest loss that they could, and the trials it takes.

    overall: the one verdict on the claim; verdicts: as `verdicts.overall` gives them.
    """
    claim = ["mechanism", "epsilon", "claim"]
    never = _judged(estimates).filter((pl.col("verdict") == NOT_TESTABLE).all().over(claim))
    rows = never.group_by(claim, maintain_order=True).agg(pl.min("allowed", "trials_needed"), pl.max("refutable"))
    return rows.pipe(with_overall, verdicts).sort("mechanism", "epsilon").to_dicts()


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
