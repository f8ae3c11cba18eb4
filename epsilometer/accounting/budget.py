"""The smallest noise at which the upper bound on the exact epsilon of a training is at most a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from scipy.optimize import brentq

from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import Gaussian, Release, VonMisesFisher
from epsilometer.accounting.schedule import Schedule
from epsilometer.accounting.statement import checked_delta
from epsilometer.accounting.steps import steps_of
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Neighbours

_PRECISION = 1e-4  # relative precision of the noise
R = TypeVar("R", Gaussian, VonMisesFisher)


def gaussian_for(
    target: float,
    schedule: Schedule,
    delta: float | None = None,
    neighbours: Neighbours = Neighbours.ADDED_OR_REMOVED,
) -> Gaussian:
    """Return the smallest sigma, to four digits, whose proved epsilon is at most the target.

    delta: by default 1/N, for N examples.
    """
    delta = checked_delta(Gaussian(1.0), schedule, delta)
    return _least(target, lambda amount: Gaussian(amount), (schedule, delta, neighbours))


def directional_for(
    target: float,
    dimensions: tuple[int, ...],
    schedule: Schedule,
    delta: float | None = None,
    neighbours: Neighbours = Neighbours.REPLACED,
) -> VonMisesFisher:
    """Return the largest kappa, to four digits, whose proved epsilon is at most the target.

    delta: by default 1/N, for N examples. At delta 0 the epsilon is the pure loss.
    """
    release = VonMisesFisher(1.0, dimensions)
    delta = checked_delta(release, schedule, delta)
    return _least(target, lambda amount: VonMisesFisher(1 / amount, dimensions), (schedule, delta, neighbours))


def _least(target: float, release: Callable[[float], R], training: tuple[Schedule, float, Neighbours]) -> R:
    if not (target > 0 and math.isfinite(target)):
        raise UserError(f"the target epsilon must be a finite number > 0, got {target}", "EPS-L001")

    def excess(log_amount: float) -> float:
        return math.log(max(_upper(release(math.exp(log_amount)), *training), 1e-12) / target)

    low = high = 0.0
    while excess(high) > 0:
        low, high = high, high + 2
    while excess(low) <= 0:
        low -= 2
    best = brentq(excess, low, high, xtol=_PRECISION / 2)
    while excess(best) > 0:
        best += _PRECISION / 2
    return release(math.exp(best))


def _upper(release: Release, schedule: Schedule, delta: float, neighbours: Neighbours) -> float:
    steps = steps_of(release, schedule, neighbours)
    if delta == 0:
        return max(steps.count * sum(pair.largest for pair in step.pairs) for step in steps.directions)
    return bracket(steps.directions, steps.count, delta).upper
