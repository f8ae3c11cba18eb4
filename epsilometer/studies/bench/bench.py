"""The bench: every estimator runs on the same samples of every mechanism. Bounds are compared with the true loss.

Losses are in nats.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.accounting.convolution.grid import unit_losses
from epsilometer.auditing.estimation.successes import loss_at
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.core.tables import Schema
from epsilometer.runtime.scaling import Engine, run
from epsilometer.studies.bench.estimators import ERROR, OURS, Estimator, own
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.mechanisms import every
from epsilometer.studies.bench.samples import samples

RATE = 0.01  # the false-positive rate at which the DP-Sniper paper reports its results
_WIDTH = 1e-4  # rounding error allowed in the guess loss, in nats, for all units together
_TOLERANCE = 1e-9  # rounding error of the true loss; only a bound that exceeds the truth by more counts as above

TRUTH: Schema = {  # a row for each mechanism, estimator and number of samples
    "mechanism": pl.String,
    "origin": pl.String,
    "claim": pl.Float64,  # the epsilon claimed for the pair of inputs
    "delta": pl.Float64,
    "pure": pl.Float64,  # the largest loss of the pair; with a delta, the smallest epsilon valid for the pair
    "guess": pl.Float64,  # the loss that follows from the success rate of the best adversary, at delta
    "at_rate": pl.Float64,  # ln(TPR / FPR) of the best test at a false-positive rate of 1 %
    "exact_low": pl.Float64,  # the lower bound on `guess` that the audit computes from the law
    "exact_high": pl.Float64,  # the upper bound on `guess` that the audit computes from the law
    "exact_pure": pl.Float64,  # the pure loss that the audit computes from the law
    "estimator": pl.String,
    "truth": pl.Float64,  # `pure` or `guess`, whichever the estimator bounds
    "samples": pl.Int64,
    "seeds": pl.Int64,
    "bound": pl.Float64,  # the median bound over seeds
    "least": pl.Float64,  # the smallest bound of any seed
    "largest": pl.Float64,  # the largest bound of any seed
    "above": pl.Int64,  # the number of seeds whose bound is above the truth
    "coverage": pl.Float64,  # the share of seeds whose bound is at most the truth
    "seconds": pl.Float64,  # the estimator's run time, the median over seeds
}


@dataclass(frozen=True)
class Size:
    """The amount of sampling. samples: runs of the mechanism per seed; seeds: number of repetitions."""

    samples: int
    seeds: int


QUICK = (Size(10_000, 20),)
FULL = (Size(10_000, 200), Size(1_000_000, 5))


def bench(sizes: Sequence[Size] = QUICK, file: Path | None = None, workers: int = 1) -> pl.DataFrame:
    """Return a table of schema `TRUTH`, with the mechanisms in the order of `every`.

    file: a Python file with a further estimator, which `own` loads. Raises UserError if the file does not exist.
    """
    if file is not None:
        own(file)  # raises before any work
    numbers = range(len(every()))
    parts = run(partial(_worker, tuple(sizes), file), numbers, Engine(workers=workers), "mechanisms")
    return pl.DataFrame([row for part in parts for row in part], TRUTH, infer_schema_length=None)


def _worker(sizes: Sequence[Size], file: Path | None) -> Callable[[int], list[dict[str, Any]]]:
    mechanisms, estimators = every(), [*OURS, *([] if file is None else [own(file)])]
    return lambda number: rows(mechanisms[number], estimators, sizes)


def rows(mechanism: KnownMechanism, estimators: Sequence[Estimator], sizes: Sequence[Size]) -> list[dict[str, Any]]:
    """Return the rows of `TRUTH` for one mechanism. An estimator is skipped at sizes above its `most` samples."""
    facts = truths(mechanism)
    table = []
    for size in sizes:
        chosen = [estimator for estimator in estimators if estimator.most is None or size.samples <= estimator.most]
        bounds = {estimator.name: np.empty(size.seeds) for estimator in chosen}
        seconds = {estimator.name: np.empty(size.seeds) for estimator in chosen}
        for seed in range(size.seeds):
            sample = samples(mechanism, size.samples, seed)
            for estimator in chosen:
                start = time.perf_counter()
                bounds[estimator.name][seed] = estimator.bound(sample, ERROR, mechanism.delta)
                seconds[estimator.name][seed] = time.perf_counter() - start
        for estimator in chosen:
            truth = facts["guess" if estimator.average else "pure"]
            median = float(np.median(seconds[estimator.name]))
            more = {"estimator": estimator.name, "truth": truth, "samples": size.samples, "seconds": median}
            table.append(facts | more | summary(bounds[estimator.name], truth))
    return table


def truths(mechanism: KnownMechanism) -> dict[str, Any]:
    """Return the columns that do not depend on samples: a mechanism's claim and the true losses of its pair."""
    law, exact = mechanism.law(), exact_figure(mechanism)
    return {
        "mechanism": mechanism.name,
        "origin": mechanism.origin,
        "claim": mechanism.claim,
        "delta": mechanism.delta,
        "pure": law.epsilon(mechanism.delta),
        "guess": loss_at(1 - law.error, 2, mechanism.delta),
        "at_rate": law.at_rate(RATE),
        "exact_low": exact.low,
        "exact_high": exact.high,
        "exact_pure": exact.pure,
    }


def summary(bounds: np.ndarray, truth: float) -> dict[str, Any]:
    """Return the columns about the bounds [seeds]: the median, the range, and the number above the truth."""
    above = int((bounds > truth + _TOLERANCE).sum())
    return {
        "seeds": len(bounds),
        "bound": float(np.median(bounds)),
        "least": float(bounds.min()),
        "largest": float(bounds.max()),
        "above": above,
        "coverage": 1 - above / len(bounds),
    }


@dataclass(frozen=True)
class ExactFigure:
    """The exact loss of a pair of inputs. low, high: bounds on its guess loss; pure: its pure loss."""

    low: float
    high: float
    pure: float


def exact_figure(mechanism: KnownMechanism) -> ExactFigure:
    """Return the exact loss, computed from the laws of independent parts if there are any, else from the law."""
    law = mechanism.law()
    parts = law.parts or (law,)
    step = 4 * _WIDTH / len(parts)
    with np.errstate(divide="ignore"):
        units = [unit_losses(np.log(part.first), np.log(part.other), step) for part in parts]
    pair = Product(units)
    log_error = pair.log_error()
    low, high = (loss_at(1 - math.exp(end), 2, mechanism.delta) for end in (log_error.high, log_error.low))
    pure = max(pair.pure_loss, pair.reversed.pure_loss, law.limit)
    return ExactFigure(low, high, pure)
