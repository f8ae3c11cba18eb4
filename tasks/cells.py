"""The parts of a cell: its trials, its mechanism, its rewrites."""

from __future__ import annotations

import numpy as np
import polars as pl

from epsilometer import tables
from epsilometer.mechanism import Latents, Mechanism, Rewrites, build_mechanism
from epsilometer.params import Params
from epsilometer.ragged import Ragged
from epsilometer.trials import Trials
from tasks.files import latents_path, rewrites_path


def mechanism(params: Params, cell: str) -> Mechanism:
    """The cell's mechanism; its models load at first use."""
    entry = params.cells[cell]
    return build_mechanism(
        params.path(entry.file), entry.settings, entry.resource, f"mechanisms.{entry.mechanism}.settings"
    )


def trials(dataset: str) -> Trials:
    """The drawn trials of a data set."""
    table = tables.read(f"data/trials/{dataset}.parquet", tables.TRIALS)
    count = len(table)
    return Trials(table["candidates"].explode().to_numpy().reshape(count, -1), table["target"].to_numpy())


def rewrites(cell: str, epsilon: float) -> tuple[Rewrites, pl.Series]:
    """The rewrites of a cell in the trials' order (latents stay on disk), and the claimed loss of each trial."""
    table = tables.read(rewrites_path(cell, epsilon), tables.REWRITES).sort("trial")
    units = table["units"]
    before, after = latents_path(cell, None), latents_path(cell, epsilon)
    made = Rewrites(
        table["text"].to_list(),
        None if units.has_nulls() else Ragged.from_lengths(units.explode().to_numpy(), units.list.len().to_numpy()),
        Latents(np.load(before, mmap_mode="r"), np.load(after, mmap_mode="r")) if after.exists() else None,
    )
    return made, table["claim"]
