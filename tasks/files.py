"""Where the stages keep what they hand to each other, relative to the run's folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from epsilometer import tables
from epsilometer.mechanism import Rewrites
from epsilometer.params import Params
from epsilometer.ragged import Ragged
from epsilometer.trials import Trials


def audited(params: Params, dataset: str) -> pl.DataFrame:
    """The prepared texts of the audited split, in the order in which candidates number them."""
    table = tables.read(f"data/prepared/{dataset}.parquet", tables.PREPARED)
    return table.filter(pl.col("split") == params.datasets[dataset].use)


def audited_texts(params: Params, dataset: str) -> list[str]:
    """The texts of `audited`."""
    return audited(params, dataset)["text"].to_list()


def trials(dataset: str) -> Trials:
    """The drawn trials of a data set."""
    table = tables.read(f"data/trials/{dataset}.parquet", tables.TRIALS)
    count = len(table)
    return Trials(table["candidates"].explode().to_numpy().reshape(count, -1), table["target"].to_numpy())


def rewrites_path(cell: str, epsilon: float) -> Path:
    """One table an epsilon."""
    return Path(f"data/rewrites/{cell}/{epsilon:g}.parquet")


def rewrites(cell: str, epsilon: float) -> tuple[Rewrites, pl.Series]:
    """The rewrites of a cell in the trials' order, and the claimed loss of each trial."""
    table = tables.read(rewrites_path(cell, epsilon), tables.REWRITES).sort("trial")
    units = table["units"]
    made = Rewrites(
        table["text"].to_list(),
        None if units.has_nulls() else Ragged.from_lengths(units.explode().to_numpy(), units.list.len().to_numpy()),
    )
    return made, table["claim"]
