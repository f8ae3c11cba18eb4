"""Stage trials@dataset: candidate sets and targets, the same for every mechanism on the data set."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.ceilings.set_trials import draw_sets, draw_trials
from epsilometer.auditing.schemas import SETS, TRIALS
from epsilometer.auditing.trials.sampling import sample, variety
from epsilometer.cells.params import read as read_params
from epsilometer.cells.tables import sets_path
from epsilometer.core import tables
from epsilometer.project.paths import audited


def main(name: str) -> None:
    """Write data/trials/<name>.parquet, and <name>.sets.parquet: a row per set of texts, if trials are of sets.

    <name>.json counts the texts, the texts with too few other texts of equal length, and the distractors.
    """
    params = read_params()
    settings = params.trials
    table = audited(params, name)
    groups = table["words"].to_numpy() if params.match(name) == "words" else None
    seed = f"{params.audit.seed}/{name}"
    sets: list[NDArray[np.int64]] = []
    if (of_sets := params.datasets[name].sets) is not None:
        sets = draw_sets(
            table["text"].to_list(), of_sets.count, of_sets.size, equal_length=groups is not None, seed=seed
        )
        sampled = draw_trials(sets, seed)
    else:
        embeddings = np.load(f"data/embeddings/{name}.npy")
        count, temperature = settings.count, settings.temperature
        sampled = sample(embeddings, count, settings.candidates, temperature, seed=seed, groups=groups)
    numbers = pl.DataFrame({"set": range(len(sets)), "texts": [texts.tolist() for texts in sets]}, schema=dict(SETS))
    tables.write(numbers, sets_path(name), SETS)
    rows = pl.DataFrame(
        {
            "trial": np.arange(len(sampled.target)),
            "candidates": pl.Series(sampled.candidates, dtype=pl.Array(pl.Int32, settings.candidates)).arr.to_list(),
            "target": sampled.target,
        }
    )
    tables.write(rows, f"data/trials/{name}.parquet", TRIALS)
    sizes = np.unique(groups, return_counts=True)[1] if groups is not None else np.array([len(table)])
    alone = int(sizes[sizes < (settings.candidates if of_sets is None else of_sets.size)].sum())
    counts = {"texts": len(table), "unmatched_dropped": alone} | variety(sampled.candidates)
    tables.write_json(counts, f"data/trials/{name}.json")
