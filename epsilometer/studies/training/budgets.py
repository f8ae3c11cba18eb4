"""The epsilons of every private training: one per accountant and kind of neighbours."""

from __future__ import annotations

from functools import cache

import polars as pl

from epsilometer.accounting.releases import Gaussian
from epsilometer.accounting.statement import account, effective_noise
from epsilometer.runtime.progress import track
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.tables import BUDGETS
from epsilometer.studies.training.trainings import first_head, noise, schedule, training_count


def budgets(params: TrainingParams) -> pl.DataFrame:
    """Return all epsilons of a project (schema BUDGETS): at delta 1 / N for N training texts, or at delta 0.

    A cell without noise has none.
    """
    account_once = cache(account)  # several cells may have the same noise and schedule
    parts = cache(lambda name: first_head(params, name, 0).parts)  # may load a network
    rows = []
    cells = [(name, cell, level) for name, cell in params.private_training.items() for level in cell.steps]
    for name, cell, level in track(cells, len(cells), "budgets"):
        release = noise(cell.noise, level).release(parts(name))
        if release is None:
            continue
        steps = schedule(cell, training_count(params, name))
        sigma = release.sigma if isinstance(release, Gaussian) else effective_noise(release, steps)
        rows += [
            {
                "cell": name,
                "level": level,
                "effective_sigma": sigma,
                "neighbours": statement.neighbours.value,
                "sampling": statement.sampling,
                "accountant": statement.accountant,
                "delta": statement.delta,
                "lower": statement.lower,
                "upper": statement.upper,
            }
            for statement in account_once(release, steps)
        ]
    return pl.DataFrame(rows, schema=dict(BUDGETS))
