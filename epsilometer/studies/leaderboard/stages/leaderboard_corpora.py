"""Stage leaderboard_corpora@dataset: F1 from corpora that are released whole or text by text.

All releases consist of texts from the same public part.
"""

from __future__ import annotations

import polars as pl

from epsilometer.core import tables
from epsilometer.studies.leaderboard.corpora import rows
from epsilometer.studies.leaderboard.params import read
from epsilometer.studies.leaderboard.tables import CORPORA, corpora_path


def main(dataset: str) -> None:
    """Write data/leaderboard_corpora/<dataset>.parquet."""
    every = list(rows(read(), dataset))
    tables.write(pl.DataFrame(every, schema=dict(CORPORA)), corpora_path(dataset), CORPORA)
