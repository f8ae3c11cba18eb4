"""Stage trials@dataset: candidate sets and targets, the same for every mechanism on the data set."""

from __future__ import annotations

import numpy as np
import polars as pl

from epsilometer.auditing.schemas import TRIALS
from epsilometer.auditing.trials.sampling import sample, variety
from epsilometer.core import tables
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import audited


def main(name: str) -> None:
    """Write data/trials/<name>.parquet, and how many texts found no partners or serve as distractors."""
    params = read_params()
    settings = params.trials
    table = audited(params, name)
    groups = table["words"].to_numpy() if params.match(name) == "words" else None
    embeddings = np.load(f"data/embeddings/{name}.npy")
    sampled = sample(
        embeddings,
        settings.count,
        settings.candidates,
        settings.temperature,
        seed=f"{params.audit.seed}/{name}",
        groups=groups,
    )
    rows = pl.DataFrame(
        {
            "trial": np.arange(settings.count),
            "candidates": pl.Series(sampled.candidates, dtype=pl.Array(pl.Int32, settings.candidates)).arr.to_list(),
            "target": sampled.target,
        }
    )
    tables.write(rows, f"data/trials/{name}.parquet", TRIALS)
    sizes = np.unique(groups, return_counts=True)[1] if groups is not None else np.array([len(table)])
    alone = int(sizes[sizes < settings.candidates].sum())
    counts = {"texts": len(table), "unmatched_dropped": alone} | variety(sampled.candidates)
    tables.write_json(counts, f"data/trials/{name}.json")
