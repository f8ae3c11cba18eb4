"""The numbers behind the report for `dvc metrics` and `dvc plots`. Losses are in nats."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from epsilometer.core import tables
from epsilometer.core.guarantees import budget_name
from epsilometer.report.rows import within_ceiling


def metrics(estimates: pl.DataFrame, path: Path) -> None:
    """Write {dataset: {mechanism: {epsilon: {attack: loss}}}} as JSON for `dvc metrics diff`.

    Losses have three decimals, so that the last bits of a sum do not look like a change, and are at most the ceiling
    (JSON knows no infinity).
    """
    tree: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for row in within_ceiling(estimates).sort("dataset", "mechanism", "epsilon", "attack").iter_rows(named=True):
        budgets = tree.setdefault(row["dataset"], {}).setdefault(row["mechanism"], {})
        budgets.setdefault(budget_name(row["epsilon"]), {})[row["attack"]] = round(row["loss"], 3)
    tables.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", path)


def plot_table(estimates: pl.DataFrame, path: Path) -> None:
    """Write the curves as CSV for `dvc plots`: losses with three decimals, cut at the ceiling."""
    columns = ("dataset", "attack", "mechanism", "epsilon", "loss", "point", "upper", "ceiling")
    table = within_ceiling(estimates).select(columns).sort("dataset", "attack", "mechanism", "epsilon")
    tables.write_text(table.with_columns(pl.col("loss", "point", "upper", "ceiling").round(3)).write_csv(), path)
