"""The report's losses for `dvc metrics` and `dvc plots`, in nats."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl

from epsilometer.auditing.exact_loss.rows import EQUAL
from epsilometer.core import tables
from epsilometer.core.guarantees import budget_name
from epsilometer.report.rows import CELL, within_ceiling

_EXACT = {"exact": "average", "exact_low": "average_low", "exact_high": "average_high"}


def metrics(estimates: pl.DataFrame, exact: pl.DataFrame, folder: Path) -> None:
    """Write a file of {attack: loss} for each cell and epsilon, a row each of `dvc metrics show`.

    Losses have three decimals, so that the last bits of a sum do not look like a change. They are clipped at the
    ceiling, because JSON has no infinity. A further entry `exact` is the average exact loss between texts of equal
    length, without a ceiling, if finite. Without cells the folder is empty.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    losses = within_ceiling(estimates).select(*CELL, "attack", "loss")
    averages = _averages(exact).select(*CELL, pl.lit("exact").alias("attack"), pl.col("exact").alias("loss"))
    table = pl.concat([losses, averages.filter(pl.col("loss").is_finite())]).with_columns(pl.col("loss").round(3))
    for (dataset, mechanism, epsilon), rows in table.sort("attack").group_by(CELL):
        name = f"{dataset}-{mechanism}/{budget_name(epsilon)}.json"
        tables.write_json(dict(rows.select("attack", "loss").rows()), folder / name)


def plot_table(estimates: pl.DataFrame, exact: pl.DataFrame, path: Path) -> None:
    """Write the curves as CSV for `dvc plots`: losses with three decimals, clipped at the ceiling.

    The last three columns are the exact average loss between texts of equal length, its lower and its upper bound. They
    are not clipped at a ceiling, and are empty without an exact loss.
    """
    columns = ("dataset", "attack", "mechanism", "epsilon", "loss", "point", "upper", "ceiling")
    table = within_ceiling(estimates).select(columns).sort("dataset", "attack", "mechanism", "epsilon")
    table = table.join(_averages(exact), on=CELL, how="left", nulls_equal=True, maintain_order="left")
    numbers = pl.col("loss", "point", "upper", "ceiling", *_EXACT).round(3)
    tables.write_text(table.with_columns(numbers).write_csv(), path)


def _averages(exact: pl.DataFrame) -> pl.DataFrame:
    """Return a row per cell and epsilon: its exact average between texts of equal length, with its bounds."""
    return exact.filter(pairs=EQUAL).select(*CELL, **_EXACT)
