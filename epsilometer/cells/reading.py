"""The parts of a cell: its trials, its mechanism, its rewrites."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.schemas import REWRITES, TRIALS
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.cells.params import TextsParams
from epsilometer.cells.tables import latents_path, readings_path, rewrites_path
from epsilometer.core import tables
from epsilometer.core.mechanism import HasReadings, Latents, Mechanism, Rewrites
from epsilometer.core.outcomes import Outcomes
from epsilometer.core.ragged import Ragged
from epsilometer.project.cells import build
from epsilometer.project.paths import audited_texts
from epsilometer.text.words import words

_READ = 1 << 16  # largest total number of words in texts whose network outputs are stored (about 100 MB)


def mechanism(params: TextsParams, cell: str) -> Mechanism:
    """Return the cell's mechanism. Its models load at first use."""
    return build(params, params.cells[cell])


def well_read(params: TextsParams, cell: str) -> Mechanism:
    """Return the cell's mechanism. To save time, it reuses the outputs of its network that `read_once` stored."""
    built = mechanism(params, cell)
    if isinstance(built, HasReadings) and len(readings := np.load(readings_path(cell), allow_pickle=False)):
        built.recall(_compared(params, cell), readings)
    return built


def read_once(params: TextsParams, cell: str, built: Mechanism) -> None:
    """Write data/readings/<cell>.npy: the network's output for each text in trials; empty for more than _READ words."""
    texts, readings = _compared(params, cell), np.empty((0, 0), np.float32)
    if isinstance(built, HasReadings) and sum(len(words(text)) for text in texts) <= _READ:
        readings = built.read(texts)
        built.recall(texts, readings)
    tables.write_array(readings, readings_path(cell))


def _compared(params: TextsParams, cell: str) -> list[str]:
    """Return the distinct texts that trials compare."""
    dataset = params.cells[cell].dataset
    texts = audited_texts(params, dataset)
    return [texts[i] for i in np.unique(trials(dataset).candidates)]


def trials(dataset: str) -> Trials:
    """Return the trials of a data set."""
    return Trials.of(tables.read(f"data/trials/{dataset}.parquet", TRIALS))


def rewrites(cell: str, epsilon: float, rows: NDArray[np.int64] | None = None) -> tuple[Rewrites, pl.Series]:
    """Return the rewrites of a cell in the order of trials, and the claimed loss of each trial.

    Latents stay on disk. rows: the ascending numbers of the trials; None: all trials.
    """
    table = tables.read(rewrites_path(cell, epsilon), REWRITES).sort("trial")
    if rows is not None and len(rows) == len(table):
        rows = None
    if rows is not None:
        table = table[rows]
    units = table["units"]
    before, after = latents_path(cell, None), latents_path(cell, epsilon)
    stored_rewrites = Rewrites(
        table["text"].to_list(),
        None if units.has_nulls() else Ragged.from_lengths(units.explode().to_numpy(), units.list.len().to_numpy()),
        Latents(_on_disk(before, rows), _on_disk(after, rows)) if after.exists() else None,
        Outcomes.of(table),
    )
    return stored_rewrites, table["claim"]


def _on_disk(path: Path, rows: NDArray[np.int64] | None) -> NDArray[np.float32]:
    array: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array if rows is None else cast(NDArray[np.float32], _Rows(array, rows))


@dataclass(frozen=True)
class _Rows:
    """Some rows of an array on disk. Has only what latents need of an array: its shape, its length and slices."""

    array: NDArray[np.float32]
    rows: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), *self.array.shape[1:])

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> NDArray[np.float32]:
        return self.array[self.rows[part]]
