"""Log losses to a tracker that is already in use: MLflow or Weights & Biases."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.core.errors import UserError
from epsilometer.report.export import read, rendered

_TRACKERS = ("mlflow", "wandb")
_NAME = ("dataset", "mechanism", "epsilon", "attack")
_METRICS = ("loss", "upper", "delta_at_4_low")
_TABLE = "epsilometer/estimates"


def track(audit: pl.DataFrame | str | Path) -> None:
    """Log an audit to the active run of MLflow, of Weights & Biases, or of both.

    audit: the result of `epsilometer.audit`, or the folder of a project's audit. Each row gives the metrics loss and
    upper, in nats (without infinite values), and delta_at_4_low if testable. Metric names begin with
    dataset/mechanism/epsilon/attack, as far as the table has these columns. The whole table, which contains no text, is
    also logged. Raises UserError if no run is active.
    """
    # A program with an active run has imported the tracker.
    mlflow, wandb = (sys.modules.get(name) for name in _TRACKERS)
    runs = [
        log
        for log, active in (
            (_to_mlflow, mlflow is not None and mlflow.active_run() is not None),
            (_to_wandb, wandb is not None and wandb.run is not None),
        )
        if active
    ]
    if not runs:
        if not any(name in sys.modules or importlib.util.find_spec(name) for name in _TRACKERS):
            raise UserError(
                "neither MLflow nor Weights & Biases is installed: pip install 'epsilometer[tracking]'", "EPS-R022"
            )
        raise UserError("no run is active; start one with mlflow.start_run() or wandb.init()", "EPS-R023")
    table = audit if isinstance(audit, pl.DataFrame) else read(Path(audit))
    for log in runs:
        log(_metrics(table), table)


def _metrics(table: pl.DataFrame) -> dict[str, float]:
    """Return the metrics to log, by name; characters that MLflow refuses in a name become underscores."""
    metrics = {}
    for row in table.iter_rows(named=True):
        parts = [_part(row[column]) for column in _NAME if row.get(column) is not None]
        for metric in _METRICS:
            if row.get(metric) is not None and math.isfinite(row[metric]):
                metrics["/".join([*parts, metric])] = row[metric]
    return metrics


def _part(value: str | float) -> str:
    return re.sub(r"[^\w. -]", "_", f"{value:g}" if isinstance(value, float) else value)


def _to_mlflow(metrics: dict[str, float], table: pl.DataFrame) -> None:
    mlflow: Any = sys.modules["mlflow"]
    mlflow.log_metrics(metrics)
    mlflow.log_text(rendered(table, ".csv"), f"{_TABLE}.csv")


def _to_wandb(metrics: dict[str, float], table: pl.DataFrame) -> None:
    wandb: Any = sys.modules["wandb"]
    wandb.log({**metrics, _TABLE: wandb.Table(columns=table.columns, data=[list(row) for row in table.iter_rows()])})
