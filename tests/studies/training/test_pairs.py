"""Trainings are compared, seed by seed, if they differ only in their noise and have the same amount of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from epsilometer.core import tables
from epsilometer.studies.training import pairs as training_pairs
from epsilometer.studies.training.params import TrainingCell
from epsilometer.studies.training.results.equivalence import DIFFERENT, EQUIVALENT
from epsilometer.studies.training.tables import BUDGETS, RUNS, budgets_path, runs_path

SIGMAS = {  # sigma of the noise on a step's sum over 128 texts
    ("clipped", 0.445): 0.445, ("scaled", 0.445): 0.445, ("drawn", 9822.0): 0.445, ("drawn", 867.0): 5.03,
    ("parts", 9822.0): 0.445, ("faster", 0.445): 0.445,
}  # fmt: skip


def cell(noise: Any, levels: list[float], **changes: Any) -> TrainingCell:
    return TrainingCell.model_validate(
        {"features": "songs", "label": "mood", "noise": noise, "levels": levels, **changes}
    )


def test_pairs_and_their_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_pairs, "training_count", lambda params, name: 1280)
    cells = {
        "clipped": cell("gaussian", [0.445]),
        "scaled": cell("scaled", [0.445]),
        "drawn": cell("vmf", [9822, 867]),
        "parts": cell({"kind": "vmf", "parts": True}, [9822]),
        "faster": cell("scaled", [0.445], rate=0.1),
    }
    budgets = [
        {"cell": name, "level": level, "effective_sigma": sigma, "accountant": accountant}
        for (name, level), sigma in SIGMAS.items()
        for accountant in ("loss distribution", "pure")
    ]
    tables.write(pl.DataFrame(budgets, schema=dict(BUDGETS)), budgets_path(), BUDGETS)
    for name in cells:
        rows = [
            {"level": level, "seed": seed, "split": split, "metric": "mcc", "value": value + 0.001 * seed**2}
            for (of, level), value in zip(SIGMAS, (0.4, 0.41, 0.4, 0.1, 0.4, 0.4), strict=True)
            for seed in range(5 if name == "drawn" else 8)
            for split in ("train", "test")
            if of == name
        ]
        for level, of_level in pl.DataFrame(rows, schema=dict(RUNS)).group_by("level"):
            tables.write(of_level, runs_path(name, *level), RUNS)
    params: Any = SimpleNamespace(private_training=cells, audit=SimpleNamespace(alpha=0.01))
    verdicts = {
        (row["cell"], row["other"], row["other_level"], row["seen"]): (row["seeds"], row["verdict"])
        for row in training_pairs.pairs(params).to_dicts()
    }
    assert verdicts == {
        ("clipped", "scaled", 0.445, "average"): (8, EQUIVALENT),
        ("clipped", "drawn", 9822.0, "average"): (5, EQUIVALENT),
        ("clipped", "drawn", 867.0, "one gradient"): (5, DIFFERENT),
        ("scaled", "drawn", 9822.0, "average"): (5, EQUIVALENT),
        ("scaled", "drawn", 867.0, "one gradient"): (5, DIFFERENT),
    }
