"""All numbers: a row an estimate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import with_overall
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.auditing.schemas import POSSIBLE
from epsilometer.report.rows import averages, unread
from epsilometer.report.section import Section
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.texts.tables import possible_path


def section(results: TextResults) -> Section:
    """The table behind the curves, with the one verdict on each claim, and what worth proves."""
    estimates = with_overall(results.estimates, results.verdicts)
    return Section(
        id="numbers",
        link="All numbers",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "rows": rows(estimates, results.exact),
            "certificates": certificates(results),
            "unread": unread(results),
            "inf": math.inf,
        },
    )


def certificates(results: TextResults) -> list[dict[str, Any]]:
    """What worth proves without an attack, a row a cell whose trials are of sets; `first` as in `rows`."""
    table = results.table(possible_path(), POSSIBLE)
    first = table["dataset"] != table["dataset"].shift()
    return table.with_columns(first=first.fill_null(value=True)).to_dicts()


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
