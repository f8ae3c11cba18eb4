"""A project for training whose texts already have labels and features, so that no model is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from epsilometer.core import tables
from epsilometer.pipeline.params import read
from epsilometer.studies.training.runs.features import LAYERS
from epsilometer.studies.training.runs.heads import LastLayers
from epsilometer.studies.training.stages import private_training
from epsilometer.studies.training.tables import RUNS, featured_path, features_path, runs_path
from epsilometer.studies.training.trainings import FEATURED
from tests.support.places import ROOT

WIDTH = 5
CELL: dict[str, Any] = {"features": "songs", "label": "mood", "batch": 16, "epochs": 3, "rate": 0.01}


def write_params(folder: Path, **sections: Any) -> None:
    """Write params.yaml with the data set `songs`, features of the same name, and these sections."""
    raw = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    raw["datasets"]["songs"] = {"source": "songs.csv", "labels": ["mood", "sure"]}
    raw["features"] = {"songs": {"dataset": "songs", "model": "data/models/minilm-mlm", "length": 32}}
    raw |= sections
    (folder / "params.yaml").write_text(yaml.safe_dump(raw))


def write_features(name: str = "songs", sizes: dict[str, int] | None = None, kind: str = "bert") -> None:
    """Write data/features/<name>. The first coordinate is lower for sad texts (one in four) than for glad ones."""
    parts = []
    for number, (split, size) in enumerate((sizes or {"train": 60, "test": 30}).items()):
        rng = np.random.default_rng(number)
        states = rng.standard_normal((size, WIDTH)).astype(np.float32)
        moods = np.where(np.arange(size) % 4 == 0, "sad", "glad")
        states[:, 0] += np.where(moods == "sad", -2, 2)
        tables.write_array(states, features_path(name) / f"{split}.npy")
        parts.append(pl.DataFrame({"id": [f"{split}{i}" for i in range(size)], "split": split, "mood": moods}))
    LastLayers(kind, WIDTH, 0.2, {"dropout": 0.1} if kind == "bert" else {"epsilon": 1e-5}, _norm(kind)).save(
        features_path(name) / LAYERS
    )
    tables.write(pl.concat(parts), featured_path(name), FEATURED)


def train(cell: str = "songs") -> None:
    """Run stage private_training for every level of a cell."""
    for name, training in read().trainings.items():
        if training.cell == cell:
            private_training.main(name)


def runs(cell: str = "songs") -> pl.DataFrame:
    """Return the results of a cell's heads at all levels (schema RUNS)."""
    levels = read().private_training[cell].steps
    return pl.concat([tables.read(runs_path(cell, level), RUNS) for level in levels])


def _norm(kind: str) -> dict[str, np.ndarray]:
    if kind == "bert":
        return {}
    return {"transformer.ln_f.weight": np.ones(WIDTH, np.float32), "transformer.ln_f.bias": np.zeros(WIDTH, np.float32)}
