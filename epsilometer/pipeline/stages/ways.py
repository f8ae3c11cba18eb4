"""Stage ways: how well a classifier learns from public texts alone, from rewrites, and from a released corpus."""

from __future__ import annotations

import polars as pl

from epsilometer.cells.params import read
from epsilometer.cells.tables import WAYS, ways_path
from epsilometer.cells.ways import rows
from epsilometer.core import tables


def main() -> None:
    """Write data/ways.parquet; without rows if no audited data set has a label to learn."""
    params = read()
    datasets = dict.fromkeys(cell.dataset for cell in params.cells.values())
    every = [row for dataset in datasets for row in rows(params, dataset)]
    tables.write(pl.DataFrame(every, schema=dict(WAYS)), ways_path(), WAYS)
