"""Losses in MLflow and Weights & Biases: in replacements of both, and in each that is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import epsilometer
from epsilometer.report import tracking
from tests.support.refusals import refused

TABLE = pl.DataFrame(
    [
        {"mechanism": "tem", "epsilon": 5.0, "attack": "lexical", "loss": 0.5, "upper": 0.75, "delta_at_4_low": 0.1},
        {
            "mechanism": "mine:2.py",
            "epsilon": None,
            "attack": "strongest",
            "loss": 2.0,
            "upper": float("inf"),
            "delta_at_4_low": None,
        },
    ]
)
METRICS = {
    "tem/5/lexical/loss": 0.5,
    "tem/5/lexical/upper": 0.75,
    "tem/5/lexical/delta_at_4_low": 0.1,
    "mine_2.py/strongest/loss": 2.0,
}


class Tracker(SimpleNamespace):
    """Either tracker, as far as it is called; without a run by default."""

    def __init__(self, run: object = None) -> None:
        super().__init__(run=run, active_run=lambda: run, logged={}, texts={}, Table=SimpleNamespace)
        self.log = self.log_metrics = self.logged.update
        self.log_text = lambda text, name: self.texts.update({name: text})


@pytest.mark.parametrize("active", [("mlflow",), ("wandb",), ("mlflow", "wandb")])
def test_losses_go_to_every_active_run_and_to_no_other(monkeypatch, active: tuple[str, ...]) -> None:
    trackers = {name: Tracker("a run" if name in active else None) for name in ("mlflow", "wandb")}
    for name, tracker in trackers.items():
        monkeypatch.setitem(sys.modules, name, tracker)  # type: ignore[arg-type]
    epsilometer.track(TABLE)
    for name, tracker in trackers.items():
        table = tracker.logged.pop("epsilometer/estimates", None)
        assert tracker.logged == (METRICS if name in active else {})
        if name == "wandb" and name in active:
            assert (table.columns, table.data) == (TABLE.columns, [list(row) for row in TABLE.rows()])
    if "mlflow" in active:
        assert pl.read_csv(trackers["mlflow"].texts["epsilometer/estimates.csv"].encode()).equals(TABLE)


@pytest.mark.parametrize(
    ("installed", "refusal"), [(True, ("EPS-R023",)), (False, ("EPS-R022", "epsilometer[tracking]"))]
)
def test_without_a_run_it_says_what_to_do(monkeypatch, installed: bool, refusal: tuple[str, ...]) -> None:
    for name in ("mlflow", "wandb"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(tracking.importlib.util, "find_spec", lambda name: installed or None)
    with refused(*refusal):
        epsilometer.track(TABLE)


def test_a_folder_without_an_audit_is_refused(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", Tracker("a run"))  # type: ignore[arg-type]
    with refused("EPS-C001"):
        epsilometer.track(tmp_path)


def audit() -> pl.DataFrame:
    texts = [f"{who} wants {what}" for who in "abcd" for what in ("tea", "milk", "rum")]
    return epsilometer.audit(texts, lambda text, rng: text, attacks=["lexical", "length"], trials=50)


def test_in_mlflow(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow: Any = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    table = audit()
    with mlflow.start_run() as run:
        epsilometer.track(table)
    client = mlflow.tracking.MlflowClient()
    metrics = client.get_run(run.info.run_id).data.metrics
    assert metrics["lexical/loss"] == table.filter(attack="lexical")["loss"][0] > 1
    written = client.download_artifacts(run.info.run_id, "epsilometer/estimates.csv", str(tmp_path))
    assert pl.read_csv(written)["loss"].to_list() == pytest.approx(table["loss"].to_list())


def test_in_weights_and_biases(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb: Any = pytest.importorskip("wandb")
    table = audit()
    with wandb.init(project="epsilometer", dir=str(tmp_path)) as run:
        epsilometer.track(table)
        assert run.summary["lexical/loss"] == table.filter(attack="lexical")["loss"][0] > 1
        assert run.summary["epsilometer/estimates"]["nrows"] == len(table)
