"""Renyi divergences of a step, in closed form or from one integral, and the upper bound on epsilon that they imply.

Divergences add: T steps have T times the divergence of one step at each order alpha > 1. By Balle et al. 2020
("Hypothesis testing interpretations and Renyi differential privacy", theorem 21),

    epsilon = divergence + ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1),

and the minimum over all orders is taken. Every order gives a valid bound, so a grid of orders only makes the bound
looser. The orders of published software (`RELEASED`) start at 1.1. A grid from 1.1 on overstates an epsilon of 10^4
more than fivefold. Here orders start at 1.00001.

- Gaussian of noise multiplier s, sampled at rate q, one example added or removed: the divergence is ln A / (alpha - 1)
  with A = E_{x ~ N(0, s^2)} (1 - q + q e^((2x - 1) / 2s^2))^alpha. If the two laws are exchanged, the divergence is at
  most as large (Mironov, Talwar and Zhang 2019, "Renyi differential privacy of the sampled Gaussian mechanism", theorem
  5). For one example replaced, the integral is that of the pair `Replaced`, which is symmetric. The trapezoidal rule
  computes the integral. Its error falls like e^(-2 pi^2 s n) with n points per s, since the integrand's nearest
  singularities have the distance pi s^2 from the real line.
- Directional draws (M as in `core.von_mises_fisher`): E e^((alpha - 1) L) of the loss L under P is
  M((2 alpha - 1) kappa) / M(kappa) for opposite means. From a draw's law to the uniform law, this mean is
  M(alpha kappa) / M(kappa)^alpha. From the uniform law to a draw's law, it is
  M((alpha - 1) kappa) M(kappa)^(alpha - 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from epsilometer.accounting.dominating_pairs import (
    Added,
    Atoms,
    FromUniform,
    Opposite,
    Pair,
    Removed,
    Replaced,
    ToUniform,
)
from epsilometer.accounting.log_sum import log_sum
from epsilometer.accounting.steps import Step
from epsilometer.core.von_mises_fisher import log_moment

RELEASED = (*(1 + i / 10 for i in range(1, 100)), *(float(i) for i in range(12, 64)))  # 1.1 to 10.9, 12 to 63
_LOWEST, _HIGHEST = 1e-5, 1e4  # range of alpha - 1
_POINTS = 200_000  # most points of an integral; orders that would need more are left out
_PER_SIGMA = 8


def renyi(directions: Sequence[Step], steps: int, delta: float) -> float:
    """Return the epsilon at delta of `steps` equal steps, in nats, from the best order of 1.00001 or more."""
    return max(_best(step, steps, delta) for step in _distinct(directions))


def renyi_on(orders: Sequence[float], directions: Sequence[Step], steps: int, delta: float) -> float:
    """Return the epsilon at delta of `steps` equal steps, in nats, from these orders alone. The orders must ascend."""
    excesses = [order - 1 for order in orders]
    return max(min(_epsilons(excesses, step, steps, delta)) for step in _distinct(directions))


def log_moment_of(step: Step, excess: float) -> float:
    """Return ln E e^(excess L) for the loss L of one step under P: excess times the divergence of order 1 + excess."""
    parts = sum(_log_moment(pair, excess) for pair in step.pairs)
    coin = step.coin
    return parts if coin == 1 else float(np.logaddexp(math.log1p(-coin), math.log(coin) + parts))


def _distinct(directions: Sequence[Step]) -> Iterable[Step]:
    """Return the distinct steps. `Added` is replaced by `Removed`, whose divergences are at least as large."""
    return dict.fromkeys(
        Step(tuple(Removed(p.sigma, p.rate) if isinstance(p, Added) else p for p in step.pairs), step.coin)
        for step in directions
    )


def _epsilons(excesses: Sequence[float], step: Step, steps: int, delta: float) -> list[float]:
    """Return the epsilon from each order 1 + excess, and stop once no higher order can give a smaller epsilon.

    The excesses must ascend. Divergences grow with the order, so most divergences are not computed.
    """
    more = [_conversion(excess, delta) for excess in excesses]
    rest = np.minimum.accumulate(more[::-1])[::-1].tolist()
    epsilons, best = [], math.inf
    for excess, conversion, least in zip(excesses, more, rest, strict=True):
        divergence = steps * log_moment_of(step, excess) / excess
        epsilons.append(max(0.0, divergence + conversion))
        best = min(best, divergence + conversion)
        if divergence + least >= best:
            break
    return epsilons


def _best(step: Step, steps: int, delta: float) -> float:
    def epsilon(log_excess: float) -> float:
        return _epsilon(step, steps, delta, math.exp(log_excess))

    grid = np.log(np.geomspace(_LOWEST, _HIGHEST, 46))
    values = _epsilons([math.exp(x) for x in grid], step, steps, delta)
    best = int(np.argmin(values))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    least = minimize_scalar(epsilon, bounds=ends, method="bounded", options={"xatol": 1e-4})
    return min(values[best], float(least.fun))


def _epsilon(step: Step, steps: int, delta: float, excess: float) -> float:
    return max(0.0, steps * log_moment_of(step, excess) / excess + _conversion(excess, delta))


def _conversion(excess: float, delta: float) -> float:
    """Return the term whose sum with a divergence of order 1 + excess is an epsilon at delta."""
    order = 1 + excess
    return math.log(excess / order) - (math.log(delta) + math.log(order)) / excess


def _log_moment(pair: Pair | Atoms, excess: float) -> float:
    if isinstance(pair, Opposite):
        return _moments(pair.kappa, pair.dimension, 2 * excess + 1) - _moments(pair.kappa, pair.dimension, 1)
    if isinstance(pair, ToUniform):
        return _moments(pair.kappa, pair.dimension, excess + 1) - (excess + 1) * _moments(pair.kappa, pair.dimension, 1)
    if isinstance(pair, FromUniform):
        return _moments(pair.kappa, pair.dimension, excess) + excess * _moments(pair.kappa, pair.dimension, 1)
    if isinstance(pair, Removed | Added):  # the divergence of `Added` is never larger than that of `Removed`
        if pair.rate == 1:
            return excess * (excess + 1) / (2 * pair.sigma**2)
        return _integral(Removed(pair.sigma, pair.rate), excess, excess + 1)
    if isinstance(pair, Atoms):
        return log_sum(pair.log_masses + excess * pair.losses)
    assert isinstance(pair, Replaced)
    if pair.rate == 1:
        return 4 * excess * (excess + 1) / (2 * pair.sigma**2)
    return _integral(pair, excess, 2 * excess + 1)


def _moments(kappa: float, dimension: int, factor: float) -> float:
    return log_moment(factor * kappa, dimension)


def _integral(pair: Removed | Replaced, excess: float, furthest: float) -> float:
    """Return ln of the integral of P e^(excess L). The integrand's mass lies around means from 0 to `furthest`.

    Returns inf if the integral needs too many points. For `Removed`, the integral of P' e^((excess + 1) L) is computed
    instead. This integral has the same value, and P' is simpler than P.
    """
    reach = 14 * pair.sigma
    points = math.ceil((furthest + 2 * reach) / pair.sigma * _PER_SIGMA)
    if points > _POINTS:
        return math.inf
    x: NDArray[np.float64] = np.linspace(-reach, furthest + reach, points)
    if isinstance(pair, Removed):
        logs = Added(pair.sigma, pair.rate).log_density(x) + (excess + 1) * pair.loss(x)
    else:
        logs = pair.log_density(x) + excess * pair.loss(x)
    total = log_sum(logs)
    return max(0.0, total + math.log(float(x[1] - x[0])))
