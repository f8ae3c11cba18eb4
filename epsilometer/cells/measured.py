"""The rows of a text audit: baselines store them, and re-audits compare them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.estimation.successes import Estimate
from epsilometer.auditing.results.diagnostics import CHOSEN
from epsilometer.auditing.schemas import ESTIMATES, GUESSES, TRIALS
from epsilometer.cells.params import TextsParams
from epsilometer.cells.tables import rewrites_path
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.corpora.reading import PREPARED
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.hashes import DIGITS, short_hash


def settings(params: TextsParams) -> dict[str, Any]:
    """Return the settings in which two audits must agree to be compared.

    These are alpha, the number of candidates, the attacks with their settings, `trials` and `embedding`. `trials` has,
    for each data set, the temperature and the `match` for the sampling of candidates, the audited split (`use`), and
    the size of the sets in trials of sets. `embedding` is the encoder that this sampling uses.
    """
    attacks = {name: json.loads(json.dumps(dict(settings))) for name, settings in params.attacks.items()}
    trials = {
        name: {"temperature": params.temperature(name), "match": params.match(name), "use": dataset.use}
        | {"sets": dataset.sets and dataset.sets.size}
        for name, dataset in params.datasets.items()
    }
    return {
        "alpha": params.audit.alpha,
        "candidates": params.trials.candidates,
        "attacks": attacks,
        "trials": trials,
        "embedding": params.embedding.model_dump(),
    }


def measure(params: TextsParams, folder: Path = Path(".")) -> dict[Row, Measured]:
    """Return the current audit in a folder: a row per cell, epsilon and attack, without the strongest attack."""
    audit: dict[Row, Measured] = {}
    if not params.cells:
        return audit
    estimates = _estimates(params, folder)
    draws = {dataset: trial_set(params, dataset, folder) for dataset in params.datasets}
    for name, cell in params.cells.items():
        trials, target = draws[cell.dataset]
        guesses = tables.read(folder / f"data/guesses/{name}.parquet", GUESSES)
        stale = UserError(
            f"the audit of {name} does not match params.yaml; bring it up to date (dvc repro)", "EPS-S074"
        )
        if set(guesses["epsilon"].unique()) != {stored(epsilon) for epsilon in cell.budgets}:
            raise stale
        for (epsilon, attack), part in guesses.group_by("epsilon", "attack", maintain_order=True):
            hits = part.sort("trial")["guess"].to_numpy() == target
            number = None if epsilon is None else float(str(epsilon))
            row = Row(cell.dataset, cell.mechanism, number, str(attack))
            if row not in estimates or estimates[row].successes != hits.sum():
                raise stale
            audit[row] = Measured(hits, trials, short_hash(folder / rewrites_path(name, number)), estimates[row])
    return audit


def _estimates(params: TextsParams, folder: Path) -> dict[Row, Estimate]:
    """Return the estimates of an audit, by row."""
    names = ["successes", "trials", "candidates", "loss", "point", "upper", "ceiling"]
    table = tables.read(folder / "data/estimates.parquet", ESTIMATES).filter(~pl.col("attack").is_in(CHOSEN))
    return {
        Row(*(row[name] for name in Row._fields)): Estimate(
            alpha=params.audit.alpha, delta=0.0, prior=None, **{n: row[n] for n in names}
        )
        for row in table.iter_rows(named=True)
    }


def trial_set(params: TextsParams, dataset: str, folder: Path = Path(".")) -> tuple[str, NDArray[np.int16]]:
    """Return a hash of a data set's trials, and the targets.

    The hash covers the targets and the candidates' ids. An id is a hash of a text.
    """
    texts = tables.read(folder / f"data/prepared/{dataset}.parquet", PREPARED)
    ids = texts.filter(pl.col("split") == params.datasets[dataset].use)["id"]
    trials = tables.read(folder / f"data/trials/{dataset}.parquet", TRIALS)
    digest = hashlib.sha256("\n".join(ids.gather(trials["candidates"].explode())).encode())
    target = trials["target"].to_numpy()
    digest.update(target.tobytes())
    return digest.hexdigest()[:DIGITS], target
