"""Measurements at a budget that several cells of one mechanism have in common.

Where the tail binds, the second budget of a mechanism is the same at every loss. The cell that runs first measures the
texts rewritten at it, and the others read that. A measurement lies in a folder named after the digest of everything
that DVC compares for a cell, except its loss: no other inputs give that name, so nothing stale is read.
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
from epsilometer.runtime.resuming import Parts
from epsilometer.studies.leaderboard.tables import parts_folder

FOLDER = Path("data/leaderboard_budgets")


@dataclass(frozen=True)
class Measured:
    """The worth of all texts as rewritten at one budget.

    cosines: float64 [n], of each text and its release. figures: rows of `FIGURES` from `figure` on.
    """

    cosines: NDArray[np.float64]
    figures: Sequence[Mapping[str, Any]]

    def by_block(self, sets: pl.DataFrame) -> NDArray[np.float64]:
        """[splits]: the mean cosine over each split's sets, every text of a set being a source."""
        means = sets.select(
            "block", value=pl.Series([float(self.cosines[numbers].mean()) for numbers in sets["texts"]])
        )
        return means.group_by("block").agg(pl.col("value").mean()).sort("block")["value"].to_numpy()


Measure = Callable[[Sequence[float]], Mapping[float, Measured]]


def shared(folder: Path | None, epsilons: Sequence[float], measure: Measure) -> dict[float, Measured]:
    """Return the measurements at these budgets: those of the folder, and what `measure` gives for the others.

    folder: None where nothing is shared.
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


def folder_of(cell: str, dataset: str, *settings: object) -> Path | None:
    """Return the folder of the cells that differ from this one in their loss alone.

    settings: all that the stage reads of params.yaml. None outside of a runner of stages, where nobody has recorded
    what a cell depends on.
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
