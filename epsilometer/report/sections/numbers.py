"""All numbers: a row an estimate."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.report.results import Results
from epsilometer.report.rows import unread
from epsilometer.report.section import Section


def section(results: Results) -> Section:
    """The table behind the curves."""
    return Section(
        id="numbers",
        link="All numbers",
        template="numbers.html.j2",
        context={"rows": rows(results.estimates), "unread": unread(results)},
    )


def rows(estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """The table behind the curves; `first` marks where a new data set or attack begins."""
    rows = estimates.to_dicts()
    before: tuple[str, str] | None = None
    for row in rows:
        group = (row["dataset"], row["attack"])
        row["first"], before = group != before, group
    return rows
