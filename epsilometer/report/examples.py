"""Which rewrites are shown beside each other: those of mechanisms that lose about as much."""

from __future__ import annotations

import polars as pl


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
