"""Rewrites at comparable loss: what mechanisms that lose about as much make of the same text."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.core.tables import Schema
from epsilometer.report.results import Results
from epsilometer.report.section import Section

SHOWN = 2  # texts a level
EXAMPLES: Schema = {
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "loss": pl.Float64,
    "original": pl.String,
    "rewrite": pl.String,
}


def section(results: Results) -> Section | None:
    """The first trials of every public data set, as rewritten by mechanisms of comparable loss."""
    table = examples(results)
    if table.is_empty():
        return None
    return Section(id="examples", link="Examples", template="examples.html.j2", context={"groups": groups(table)})


def examples(results: Results) -> pl.DataFrame:
    """Schema EXAMPLES: the budgets that `comparable` chooses under the first attack of the audit."""
    rows = []
    cells = comparable(results.estimates, next(iter(results.params.attacks)))
    for dataset, mechanism, epsilon, loss in cells.filter(pl.col("dataset").is_in(results.public)).iter_rows():
        texts, source = results.texts(dataset), results.trials(dataset).source
        for trial, rewrite in results.rewrites(dataset, mechanism, epsilon).items():
            if trial < SHOWN:
                rows.append((dataset, mechanism, epsilon, loss, texts[source[trial]], rewrite))
    return pl.DataFrame(rows, schema=dict(EXAMPLES), orient="row")


def comparable(estimates: pl.DataFrame, attack: str, levels: int = 3) -> pl.DataFrame:
    """Rows dataset, mechanism, epsilon, loss: the budgets at which mechanisms have about the same loss under an attack.

    A level is a loss to the nearest nat. For each data set up to `levels` levels that the most mechanisms reach, and
    for each mechanism there its budget nearest to the level. Levels that one mechanism alone reaches compare nothing.
    """
    shown = estimates.filter(pl.col("attack") == attack).select("dataset", "mechanism", "epsilon", "loss")
    level = (pl.col("loss") + 0.5).floor()
    nearest = (
        shown.with_columns(level=level, away=(pl.col("loss") - level).abs())
        .sort("dataset", "level", "mechanism", "away", "epsilon")
        .unique(["dataset", "level", "mechanism"], keep="first", maintain_order=True)
    )
    shared = nearest.group_by("dataset", "level").len("mechanisms").filter(pl.col("mechanisms") > 1)
    best = (
        shared.sort("dataset", "mechanisms", "level", descending=[False, True, False]).group_by("dataset").head(levels)
    )
    return nearest.join(best, on=["dataset", "level"], how="semi").drop("level", "away")


def groups(examples: pl.DataFrame) -> list[dict[str, Any]]:
    """Groups of one data set and one level of loss (to the nearest whole nat), each with its originals."""
    levels = examples.with_columns(level=(pl.col("loss") + 0.5).floor())
    groups = []
    for (dataset, level), table in levels.sort("dataset", "level").group_by("dataset", "level", maintain_order=True):
        texts = [
            {"original": original, "rewrites": rewrites.sort("mechanism", "epsilon").to_dicts()}
            for (original,), rewrites in table.group_by("original", maintain_order=True)
        ]
        groups.append({"dataset": dataset, "level": level, "texts": texts})
    return groups
