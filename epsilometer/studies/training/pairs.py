"""Compare the scores of trainings that differ in their noise alone, at equally loud noise.

Each seed of a cell is paired with the same seed of the other, which has the same first head, batches and dropout
masks. Two noises are equally loud if their sigmas agree within 2 %, seen in one of two ways:

- `average`: as the noise on a step's sum, for directional noise sqrt(L / (A kappa)) of L examples a step;
- `one gradient`: as the noise on the gradient that one example sends, sqrt(1 / (A kappa)). Here the best guess between
two texts is right equally often under either noise, so this is utility at equal reconstruction.

For Gaussian noise and noise on scaled gradients, both are the sigma in the settings. Between these two,
reconstruction is equal as well if no gradient is shorter than the clip bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import polars as pl

from epsilometer.core import tables
from epsilometer.core.tables import Schema
from epsilometer.studies.training.params import TrainingCell, TrainingParams
from epsilometer.studies.training.results.equivalence import compare
from epsilometer.studies.training.tables import BUDGETS, RUNS, budgets_path, runs_path
from epsilometer.studies.training.trainings import schedule, training_count

METRIC, MARGIN = "mcc", 0.05  # largest difference of heads that count as equally good
AVERAGE, ONE = "average", "one gradient"
_ALIKE = 1.02  # ratio of sigmas that count as equal
PAIRS: Schema = {
    "cell": pl.String,
    "level": pl.Float64,
    "other": pl.String,  # also a cell of private_training
    "other_level": pl.Float64,
    "seen": pl.String,  # "average" or "one gradient": the view in which the noise is equally loud
    "sigma": pl.Float64,
    "seeds": pl.Int64,
    "difference": pl.Float64,  # of the metric on tested texts, the cell's minus the other's, mean over seeds
    "low": pl.Float64,  # its interval at 1 - alpha / rows
    "high": pl.Float64,
    "verdict": pl.String,  # `equivalence`, of all rows together
}
Row = dict[str, Any]


def pairs(params: TrainingParams) -> pl.DataFrame:
    """Return all pairs of a project (schema `PAIRS`), from its budgets and the results of stage private_training."""
    rows = list(_loud_alike(params))
    for row in rows:
        own, other = _scores(params, row["cell"], row["level"]), _scores(params, row["other"], row["other_level"])
        shared = sorted({*own} & {*other})
        seen = compare([own[i] - other[i] for i in shared], MARGIN, params.audit.alpha / len(rows))
        row |= {"seeds": len(shared), "difference": seen.difference, "low": seen.low, "high": seen.high}
        row["verdict"] = seen.verdict
    return pl.DataFrame(rows, schema=dict(PAIRS))


def _loud_alike(params: TrainingParams) -> Iterator[Row]:
    table = tables.read(budgets_path(), BUDGETS).unique(["cell", "level"], keep="first", maintain_order=True)
    noised = [row for row in table.to_dicts() if _is_plain(params.private_training[row["cell"]])]
    for left, other in combinations(noised, 2):
        if not _same_but_noise(params.private_training[left["cell"]], params.private_training[other["cell"]]):
            continue
        views: dict[str, list[float]] = {}
        for row in (left, other):
            for seen, sigma in _sigmas(params, row["cell"], row["effective_sigma"]).items():
                views.setdefault(seen, []).append(sigma)
        if views[ONE] == views[AVERAGE]:
            del views[ONE]
        for seen, sigmas in views.items():
            if max(sigmas) <= _ALIKE * min(sigmas):
                named = {"cell": left["cell"], "level": left["level"], "other": other["cell"]}
                yield named | {"other_level": other["level"], "seen": seen, "sigma": sigmas[0]}


def _sigmas(params: TrainingParams, name: str, average: float) -> dict[str, float]:
    """Return the noise of a cell at a level as sigma in both views. average: the noise on a step's sum."""
    cell = params.private_training[name]
    if cell.noise.kind != "vmf":
        return {AVERAGE: average, ONE: average}
    examples = float(schedule(cell, training_count(params, name)).expected_batch)
    return {AVERAGE: average, ONE: average / math.sqrt(examples)}


def _is_plain(cell: TrainingCell) -> bool:
    """Return True if noise is added to whole gradients of length 1 at most."""
    return not (cell.noise.parts or cell.noise.gamma) and cell.noise.clip in (None, 1)


def _same_but_noise(left: TrainingCell, other: TrainingCell) -> bool:
    recipes = [cell.model_dump(exclude={"noise", "levels", "seeds"}) for cell in (left, other)]
    return recipes[0] == recipes[1] and left.noise.kind != other.noise.kind


def _scores(params: TrainingParams, name: str, level: float) -> dict[int, float]:
    """Return the metric on the cell's test texts, by seed."""
    split = params.private_training[name].test
    runs = tables.read(runs_path(name, level), RUNS).filter(split=split, metric=METRIC)
    return dict(runs.select("seed", "value").iter_rows())
