"""The numbers for `dvc metrics` and `dvc plots`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.estimation import estimate
from epsilometer.report.tracked import metrics, plot_table
from tests.support.audited import TRIALS, estimates


def test_metrics_are_rounded_sorted_and_finite(tmp_path: Path) -> None:
    table = estimates().with_columns(loss=pl.when(mechanism="identity").then(math.inf).otherwise("loss"))
    metrics(table.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "reports" / "metrics.json")
    text = (tmp_path / "reports" / "metrics.json").read_text(encoding="utf-8")
    tree = json.loads(text, parse_constant=pytest.fail)  # no Infinity, no NaN
    assert list(tree) == ["letters", "queries"]
    assert list(tree["queries"]["mvc"]) == ["0.5", "5", "2500"]
    assert tree["queries"]["mvc"]["5"] == {
        "embedding": round(estimate(820, TRIALS).loss, 3),
        "length": round(estimate(800, TRIALS).loss, 3),
        "strongest": round(estimate(820, TRIALS, alpha=0.005).loss, 3),
        "strongest_inside": round(estimate(820, TRIALS, alpha=0.005).loss, 3),
    }
    assert tree["queries"]["identity"]["1"]["embedding"] == round(estimate(TRIALS, TRIALS).ceiling, 3)
    assert tree["queries"]["dp_bart"]["5"]["length"] == 0
    metrics(table, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == text


def test_plot_table_is_cut_at_the_ceiling(tmp_path: Path) -> None:
    plot_table(estimates(), tmp_path / "plots.csv")
    table = pl.read_csv(tmp_path / "plots.csv")
    assert len(table) == len(estimates())
    assert table.columns == ["dataset", "attack", "mechanism", "epsilon", "loss", "point", "upper", "ceiling"]
    assert table.select((pl.col("upper", "point", "loss") <= pl.col("ceiling")).all()).row(0) == (True, True, True)
