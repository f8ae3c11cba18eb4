"""Rewriting of a data set's texts in slices, so that a stopped run continues after its last slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.trials.rewriting import Block, Job, rewrite_blocks
from epsilometer.core import tables
from epsilometer.core.mechanism import Mechanism
from epsilometer.runtime.scaling import HERE, Engine

SLICE = 256  # texts per slice: at most this many are rewritten again after a stop
PIECES: tables.Schema = {"epsilon": pl.Float64, "row": pl.Int64, "text": pl.String}


def privatize(build: Callable[[], Mechanism], job: Job, folder: Path, engine: Engine = HERE) -> None:
    """Rewrite the trials of a job that the folder lacks, and write a Parquet file per slice.

    A rewrite depends only on its stream and its text, so an interruption does not change any rewrite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = {int(row) for part in folder.glob("*.parquet") for row in tables.read(part, PIECES)["row"]}
    left = np.array([row for row in range(len(job.source)) if row not in done], np.int64)
    if not len(left):
        return
    rest = Job(job.texts, job.source[left], job.epsilons, [noise[left] for noise in job.noises])
    for block in rewrite_blocks(build, rest, SLICE, engine):
        rows = left[block.rows]
        tables.write(_table(rows, job.epsilons, block), folder / f"{rows.min()}.parquet", PIECES)
    rest.tally.say()


def collect(folder: Path, epsilon: float) -> pl.DataFrame:
    """Return the rewrites at this epsilon in the order of the trials: the column `text`, and the outcomes if any."""
    return tables.at_epsilon(pl.read_parquet(folder / "*.parquet"), epsilon).sort("row").drop("epsilon", "row")


def _table(rows: np.ndarray[Any, np.dtype[np.int64]], epsilons: Sequence[float], block: Block) -> pl.DataFrame:
    parts = []
    for epsilon, rewrites in zip(epsilons, block.rewrites, strict=True):
        columns = {"epsilon": pl.repeat(epsilon, len(rows), eager=True), "row": rows, "text": list(rewrites.texts)}
        part = pl.DataFrame(columns)
        parts.append(part if rewrites.outcomes is None else part.hstack(rewrites.outcomes.table()))
    return pl.concat(parts)
