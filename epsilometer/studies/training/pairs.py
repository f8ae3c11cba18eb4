"""Comparison of the scores of trainings that differ only in the kind of noise, at equal amounts of noise.

Each training of a cell is paired with the other cell's training of the same seed. The two trainings have equal initial
heads, batches and dropout masks. Two noises are equal in amount if their sigmas differ by at most 2 %. There are two
definitions of sigma:

- `average`: the noise on the sum over a step. For directional noise it is sqrt(L / (A kappa)), with L examples per step
  and A the mean cosine of a draw.
- `one gradient`: the noise on the gradient of one example, sqrt(1 / (A kappa)) for directional noise. If these sigmas
  are equal, the best guess between two texts is right equally often for both noises, so utility is compared at equal
  reconstruction.

For Gaussian noise and noise on scaled gradients, both definitions give the sigma in the settings. At equal sigma,
reconstruction is equal for these two kinds, too, if no gradient is shorter than the clipping length.
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

METRIC, MARGIN = "mcc", 0.05  # two heads count as equally good up to this difference
AVERAGE, ONE = "average", "one gradient"
_ALIKE = 1.02  # two sigmas count as equal up to this ratio
PAIRS: Schema = {
    "cell": pl.String,
    "level": pl.Float64,
    "other": pl.String,  # also a cell of private_training
    "other_level": pl.Float64,
    "seen": pl.String,  # "average" or "one gradient": the definition by which the sigmas are equal
    "sigma": pl.Float64,
    "seeds": pl.Int64,
    "difference": pl.Float64,  # METRIC of `cell` minus METRIC of `other`, on test texts; mean over seeds
    "low": pl.Float64,  # lower bound on the difference, at confidence 1 - alpha / rows
    "high": pl.Float64,  # upper bound on the difference
    "verdict": pl.String,  # from `equivalence`; all verdicts hold jointly with probability >= 1 - alpha
}
Row = dict[str, Any]


def pairs(params: TrainingParams) -> pl.DataFrame:
    """Return all pairs of cells of a project, schema `PAIRS`, from its budgets and the results of private_training."""
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
    """Return a cell's sigma by both definitions. average: the sigma of the noise on the sum over a step."""
    cell = params.private_training[name]
    if cell.noise.kind != "vmf":
        return {AVERAGE: average, ONE: average}
    examples = float(schedule(cell, training_count(params, name)).expected_batch)
    return {AVERAGE: average, ONE: average / math.sqrt(examples)}


def _is_plain(cell: TrainingCell) -> bool:
    """Return True if noise is added to whole gradients that are clipped or scaled to length 1."""
    return not (cell.noise.parts or cell.noise.gamma) and cell.noise.clip in (None, 1)


def _same_but_noise(left: TrainingCell, other: TrainingCell) -> bool:
    recipes = [cell.model_dump(exclude={"noise", "levels", "seeds"}) for cell in (left, other)]
    return recipes[0] == recipes[1] and left.noise.kind != other.noise.kind


def _scores(params: TrainingParams, name: str, level: float) -> dict[int, float]:
    """Return METRIC on the cell's test texts at a level, by seed."""
    split = params.private_training[name].test
    runs = tables.read(runs_path(name, level), RUNS).filter(split=split, metric=METRIC)
    return dict(runs.select("seed", "value").iter_rows())
