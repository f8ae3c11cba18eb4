"""The numbers for `dvc metrics` and `dvc plots`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.schemas import EXACT
from epsilometer.report.cells.tracked import metrics, plot_table
from tests.support.audited import TRIALS, estimates

NONE = pl.DataFrame(schema=dict(EXACT))
EXACTLY = pl.DataFrame(
    [
        {"dataset": "queries", "mechanism": "mvc", "epsilon": epsilon, "pairs": pairs, "average": average}
        | {"average_low": average - 0.25, "average_high": average + 0.25}
        for epsilon, pairs, average in (
            (0.5, "equal length", 0.12345),
            (5.0, "all", 999.0),
            (5.0, "equal length", 123.4567),
            (2500.0, "equal length", math.inf),
        )
    ],
    schema=dict(EXACT),
)


def test_metrics_are_rounded_sorted_and_finite(tmp_path: Path) -> None:
    table = estimates().with_columns(loss=pl.when(mechanism="identity").then(math.inf).otherwise("loss"))
    metrics(table.sample(fraction=1.0, shuffle=True, seed=1), NONE, tmp_path / "metrics")
    written = _read(tmp_path / "metrics")
    assert {name for name in written if name.startswith("queries-mvc/")} == {
        f"queries-mvc/{epsilon}.json" for epsilon in ("0.5", "5", "2500")
    }
    assert json.loads(written["queries-mvc/5.json"]) == {
        "embedding": round(estimate(820, TRIALS).loss, 3),
        "length": round(estimate(800, TRIALS).loss, 3),
        "strongest": round(estimate(820, TRIALS, alpha=0.005).loss, 3),
        "strongest_inside": round(estimate(820, TRIALS, alpha=0.005).loss, 3),
    }
    identity = json.loads(written["queries-identity/1.json"], parse_constant=pytest.fail)  # no Infinity, no NaN
    assert identity["embedding"] == round(estimate(TRIALS, TRIALS).ceiling, 3)
    assert json.loads(written["queries-dp_bart/5.json"])["length"] == 0
    metrics(table.filter(pl.col("mechanism") != "mvc"), NONE, tmp_path / "metrics")
    assert _read(tmp_path / "metrics") == {name: text for name, text in written.items() if "-mvc/" not in name}


def test_the_folder_of_an_audit_without_cells_exists(tmp_path: Path) -> None:
    """It is an output of the stage, which DVC misses otherwise, as in the leaderboard's profile."""
    metrics(estimates().clear(), NONE, tmp_path / "reports" / "metrics")
    assert list((tmp_path / "reports" / "metrics").iterdir()) == []


def _read(folder: Path) -> dict[str, str]:
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in folder.rglob("*.json")}


def test_plot_table_is_cut_at_the_ceiling(tmp_path: Path) -> None:
    plot_table(estimates(), NONE, tmp_path / "plots.csv")
    table = pl.read_csv(tmp_path / "plots.csv")
    assert len(table) == len(estimates())
    assert table.columns[:-3] == ["dataset", "attack", "mechanism", "epsilon", "loss", "point", "upper", "ceiling"]
    assert table["exact"].null_count() == len(table)
    assert table.select((pl.col("upper", "point", "loss") <= pl.col("ceiling")).all()).row(0) == (True, True, True)


def test_exact_losses_stand_beside_and_above_the_ceiling(tmp_path: Path) -> None:
    metrics(estimates(), EXACTLY, tmp_path / "metrics")
    written = _read(tmp_path / "metrics")
    of_mvc = {epsilon: json.loads(written[f"queries-mvc/{epsilon}.json"]) for epsilon in ("0.5", "5", "2500")}
    assert (of_mvc["0.5"]["exact"], of_mvc["5"]["exact"]) == (0.123, 123.457)
    assert "exact" not in of_mvc["2500"]
    plot_table(estimates(), EXACTLY, tmp_path / "plots.csv")
    table = pl.read_csv(tmp_path / "plots.csv")
    assert len(table) == len(estimates())
    rows = table.filter(dataset="queries", mechanism="mvc", epsilon=5.0)
    assert rows.select("exact", "exact_low", "exact_high").unique().rows() == [(123.457, 123.207, 123.707)]
    assert table.filter(dataset="letters")["exact"].null_count() == len(table.filter(dataset="letters"))
