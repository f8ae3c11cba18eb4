"""A cache for the cells of one mechanism on one data set. These cells differ only in their target loss.

A cell searches for two budgets (`budgets.py`). The first has the target loss. The second must also keep delta at 4 nats
within a limit. If this limit decides, the second budget is the same at nearly every target loss. The searches of the
cells have many other budgets in common, too, and the mechanism always reads the same texts. So the cell that runs first
stores its losses, its measurements of rewrites, and the mechanism's readings of the texts (readings do not depend on a
budget). The other cells use these files.

The cache folder is named after a digest of everything that DVC compares for a cell, except its target loss. Any change
of an input changes the name, so nothing stale is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.mechanism import HasReadings, Mechanism
from epsilometer.runtime.resuming import Parts
from epsilometer.studies.leaderboard.budgets import Curve, Lost
from epsilometer.studies.leaderboard.tables import parts_folder

FOLDER = Path("data/leaderboard_budgets")


@dataclass(frozen=True)
class Measured:
    """The worth of the rewrites of all texts at one budget.

    cosines: float64 [n], the cosine of each text and its release.
    figures: rows of `FIGURES`, from the column `figure` on.
    """

    cosines: NDArray[np.float64]
    figures: Sequence[Mapping[str, Any]]

    def by_block(self, sets: pl.DataFrame) -> NDArray[np.float64]:
        """Return the mean cosine over the sets of each split, [splits]. A set's cosine is the mean over its texts."""
        means = sets.select(
            "block", value=pl.Series([float(self.cosines[numbers].mean()) for numbers in sets["texts"]])
        )
        return means.group_by("block").agg(pl.col("value").mean()).sort("block")["value"].to_numpy()


Measure = Callable[[Sequence[float]], Mapping[float, Measured]]


def shared(folder: Path | None, epsilons: Sequence[float], measure: Measure) -> dict[float, Measured]:
    """Return the measurements at these budgets: from the folder, or from `measure` if the folder lacks them.

    folder: None if measurements are not shared; new measurements are then not stored.
    """
    if folder is None:
        return dict(measure(epsilons)) if epsilons else {}
    finished = Parts(folder)
    new = [epsilon for epsilon in epsilons if repr(epsilon) not in finished]
    for epsilon, each in (measure(new) if new else {}).items():
        with finished.part(repr(epsilon)) as place:
            tables.write_array(each.cosines, place / "cosines.npy")
            tables.write_json({"figures": [dict(row) for row in each.figures]}, place / "figures.json")
    return {epsilon: _read(folder / repr(epsilon)) for epsilon in epsilons}


@dataclass(frozen=True)
class SharedCurve:
    """A curve whose losses are stored. folder: the folder of these losses."""

    curve: Curve
    folder: Path

    @property
    def by(self) -> str:
        """The source of the loss, as in `Curve`."""
        return self.curve.by

    @property
    def width(self) -> float:
        """The precision of a search, as in `Curve`."""
        return self.curve.width

    def at(self, epsilon: float) -> Lost:
        """Return the losses at a budget, as in `Curve`."""
        finished = Parts(self.folder)
        if repr(epsilon) not in finished:
            lost = self.curve.at(epsilon)
            ends = [np.nan if end is None else end for end in (lost.pure, lost.worst)]
            with finished.part(repr(epsilon)) as place:
                tables.write_array(np.array([*lost.average, *lost.delta, *ends]), place / "lost.npy")
        low, high, little, large, pure, worst = np.load(self.folder / repr(epsilon) / "lost.npy").tolist()
        return Lost((low, high), (little, large), *(None if np.isnan(end) else end for end in (pure, worst)))


def recall(folder: Path, mechanism: Mechanism, texts: Sequence[str]) -> None:
    """Use the stored readings of the texts; compute and store them first if the folder lacks them."""
    if not isinstance(mechanism, HasReadings):
        return
    finished = Parts(folder)
    if "readings" not in finished:
        with finished.part("readings") as place:
            tables.write_array(mechanism.read(texts), place / "readings.npy")
    if len(readings := np.load(folder / "readings/readings.npy", allow_pickle=False)):
        mechanism.recall(texts, readings)


def folder_of(cell: str, dataset: str, *settings: object) -> Path | None:
    """Return the cache folder that this cell shares with the cells that differ only in their loss.

    settings: all settings from params.yaml that the stage reads. The result is None if the stage runs outside DVC,
    because the records of the cell's dependencies are then missing.
    """
    records = [Path(f"data/{kind}/leaderboard_cells/{cell}.json") for kind in ("code", "resources")]
    if not all(path.is_file() for path in records):
        return None
    parts = sorted(path for path in Path(parts_folder(dataset)).iterdir() if path.is_file())
    digest = hashlib.sha256(json.dumps(settings, default=str).encode())
    for path in (*records, *parts):
        digest.update(
            hashlib.sha256(_without_loss(path.read_bytes()) if path in records else path.read_bytes()).digest()
        )
    return FOLDER / digest.hexdigest()[:32]


def _without_loss(record: bytes) -> bytes:
    content = json.loads(record)
    if isinstance(content.get("cell"), dict):
        del content["cell"]["loss"]
    return json.dumps(content, sort_keys=True).encode()


def _read(place: Path) -> Measured:
    figures = json.loads((place / "figures.json").read_bytes())["figures"]
    return Measured(np.load(place / "cosines.npy", allow_pickle=False), figures)
