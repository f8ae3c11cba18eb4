"""A test of a claim in zCDP, Renyi or GDP by the rates of an attack's confident guesses.

Among all trials, each with k candidates, let a be the rate of right guesses with a score of at least some threshold,
and b the rate of wrong guesses with such a score. If delta(c) is the delta that the claim allows at loss c, then
a <= e^c b / (k - 1) + delta(c) for every c (`estimation/tail.py`). One lower bound of a and one upper bound of b test
these inequalities for all c, without a correction for the number of inequalities. The first half of the trials chooses
the threshold, and the second half bounds both rates. A claim in zCDP or Renyi implies the curve delta(c), but the curve
does not imply the claim. So attacks may fail to refute a false claim in zCDP or Renyi.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from epsilometer.auditing.estimation.tail import Scored, thresholds
from epsilometer.core.curves import LEVELS, Curve

_LEAST = 1e-30  # smallest p-value
_HALVINGS = 30  # bisection steps on the logarithm of a p-value


def p_value(scored: Scored, curve: Curve, candidates: int) -> float:
    """Return an upper bound of the claim's p-value: the smallest error at which the bounds violate the claim."""
    trials = len(scored.right)
    if trials < 2:
        return 1.0
    first, second = scored.part(slice(trials // 2)), scored.part(slice(trials // 2, trials))
    allowed = curve.delta(LEVELS)
    values = [float(value) for value in thresholds(first)]
    seen = [_p_value(*first.beyond(value), len(first.right), candidates, allowed=allowed) for value in values]
    best = values[int(np.argmin(seen))]
    return _p_value(*second.beyond(best), len(second.right), candidates, allowed=allowed)


def _p_value(hits: int, misses: int, trials: int, candidates: int, *, allowed: NDArray[np.float64]) -> float:
    def broken(error: float) -> bool:
        low = float(betaincinv(hits, trials - hits + 1, error / 2)) if hits else 0.0
        high = float(betaincinv(misses + 1, trials - misses, 1 - error / 2)) if misses < trials else 1.0
        return low > float((allowed + np.exp(LEVELS) * high / (candidates - 1)).min())

    if not broken(1.0):
        return 1.0
    if broken(_LEAST):
        return _LEAST
    low, high = math.log(_LEAST), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if broken(math.exp(middle)) else (middle, high)
    return math.exp(high)
