"""All numbers: a row an estimate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import with_overall
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.report.rows import averages, unread
from epsilometer.report.section import Section
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section:
    """The table behind the curves, with the one verdict on each claim."""
    estimates = with_overall(results.estimates, results.verdicts)
    return Section(
        id="numbers",
        link="All numbers",
        template=Path(__file__).with_suffix(".html.j2"),
        context={"rows": rows(estimates, results.exact), "unread": unread(results), "inf": math.inf},
    )


def rows(estimates: pl.DataFrame, exact: pl.DataFrame) -> list[dict[str, Any]]:
    """The table behind the curves; `first` marks where a new data set or attack begins.

    exact: the average by the law of what is released, which no attack on that exceeds; None where it is not known.
    """
    rows, by_law = estimates.to_dicts(), averages(exact.filter(~pl.col("method").str.starts_with(AT_LEAST)), pairs=ALL)
    before: tuple[str, str] | None = None
    for row in rows:
        group = (row["dataset"], row["attack"])
        row["first"], before = group != before, group
        cell = (row["dataset"], row["mechanism"], row["epsilon"])
        row["exact"] = by_law.get(cell) if row["released"] else None
    return rows
