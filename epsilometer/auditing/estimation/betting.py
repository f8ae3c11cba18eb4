"""Confidence intervals for the mean of numbers in [0, 1], by betting against every possible mean.

Method: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86, 2024. Let x_1,
x_2, ... lie in [0, 1], each with mean mu given the earlier ones. A bettor who bets that the mean exceeds m has, after n
numbers, the wealth

    W_n(m) = prod over i of (1 + b_i (x_i - m)),   with stakes 0 <= b_i < 1 / m chosen before x_i.

At m = mu the wealth is a non-negative martingale that starts at 1, so the probability that it ever reaches 2 / alpha is
at most alpha / 2 (Ville 1939). The wealth decreases in m. So it has reached 2 / alpha for every m below some point, and
that point is the lower bound of the mean. The upper bound comes from 1 - x in the same way. Only the range [0, 1] and
the mean mu of the numbers are assumed.

The stakes affect only the width. If the interval must be valid at every n, W is the mean of the wealths of several
bettors, each with a constant stake b = g / m. Here g is the largest share of the wealth that one bet can lose, from a
thousandth to nearly all. For any variance and n, one of these stakes is almost the best (Cover's universal portfolio,
on a grid). If n is fixed beforehand, b_i is the best stake for n numbers with the variance of the first i - 1 (section
4.1 of the paper), which makes the interval about a fifth narrower.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import ArrayLike, NDArray

_STAKES = np.geomspace(0.001, 0.95, 14)  # the values of g
_MOST = 0.9  # largest stake as a share of the wealth, if n is fixed
_LEAST = -600.0  # ln of the smallest positive mean

Wealth = Callable[[float], float]
"""Maps m to ln W(m); for stakes that vary over time, to its maximum over n."""


def interval(values: ArrayLike, alpha: float, fixed: bool = False) -> tuple[float, float]:
    """Return the 1 - alpha confidence interval of the mean of independent numbers in [0, 1].

    values: [n], in the order of observation. The interval is valid at all n together, and so for any stopping rule.
    fixed: True if n was chosen before any value was seen, and the interval is computed only once; the interval is then
    narrower, but valid only at this n. Returns (0, 1) without values. Raises ValueError for values outside [0, 1].
    """
    x = np.asarray(values, np.float64)
    if not len(x):
        return 0.0, 1.0
    least, most = float(x.min()), float(x.max())
    if not 0 <= least <= most <= 1:
        raise ValueError(f"values must lie in [0, 1], got {least:g} to {most:g}")
    limit = math.log(2 / alpha)
    if not fixed:
        return _lower_end(_mixed(x), limit), 1 - _lower_end(_mixed(1 - x), limit)
    width = limit / len(x)  # approximate width of each side
    if least == most:
        below = _stakes_alike(least, len(x), limit)
        ends = [_lower_end(_alike(value, len(x), below), limit, value, width) for value in (least, 1 - least)]
    else:
        width = max(float(x.std()) * math.sqrt(2 * limit / len(x)), width)
        stakes = _stakes(x, limit)  # 1 - x has the same stakes
        ends = [_lower_end(_planned(each, stakes), limit, float(each.mean()), width) for each in (x, 1 - x)]
    return ends[0], 1 - ends[1]


def fewest_alike(value: float, end: float, alpha: float) -> float:
    """Return the number of values, all equal to `value`, whose interval has the lower bound `end` < `value`.

    Values that vary around the same mean need a larger number.
    """
    gains, limit = np.log1p(_STAKES / end * (value - end)), math.log(2 / alpha) + math.log(len(_STAKES))
    most = limit / float(gains.max())  # the best stake alone reaches the limit by this number
    return float(
        math.ceil(scipy.optimize.brentq(lambda n: float(np.logaddexp.reduce(n * gains)) - limit, 0.0, most + 1.0))
    )


def _lower_end(wealth: Wealth, limit: float, mean: float = 0.0, width: float = 0.0) -> float:
    """Return the largest m at which the wealth reaches its limit, to ten digits; 0 if there is none.

    The search starts near `mean - width` if that is above 0, and covers all m otherwise.
    """

    @cache
    def missing(log_mean: float) -> float:
        return wealth(math.exp(log_mean)) - limit

    low, high = _LEAST, 0.0
    if mean > width:
        low = high = math.log(mean - width)
        step = 0.02 * width / (mean - width)
        while missing(low) <= 0 and low > _LEAST:
            low, high, step = max(_LEAST, low - step), low, 4 * step
        while missing(high) > 0:  # ends, because the wealth is below its limit at m = 1
            low, high, step = high, min(0.0, high + step), 4 * step
    return math.exp(scipy.optimize.brentq(missing, low, high, rtol=1e-11)) if missing(low) > 0 else 0.0


def _mixed(x: NDArray[np.float64]) -> Wealth:
    def wealth(mean: float) -> float:
        factors = np.multiply.outer(_STAKES / mean, x) + (1 - _STAKES)[:, None]  # 1 + (g / m) (x - m)
        return float(np.logaddexp.reduce(np.log(factors).sum(axis=1))) - math.log(len(_STAKES))

    return wealth


def _stakes(x: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Return [n]: for each number, the best stake for n numbers with the variance of the numbers before it."""
    count = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    return np.asarray(np.sqrt(2 * limit / (len(x) * np.append(0.25, variance[:-1]))))


def _stakes_alike(value: float, count: int, limit: float) -> Callable[[float], NDArray[np.float64]]:
    """Return a function of a number, which returns the `_stakes` of `count` equal values below this number.

    The stakes never decrease, so only the first ones are computed, up to the given number. They have a closed form
    except for a running sum of 1 / i^2. This sum is below pi^2 / 6, which limits how many stakes are needed.
    """
    most_deviations = 0.25 + (math.pi**2 / 6 - 1) * (value - 0.5) ** 2
    stakes = np.empty(0)

    def first(many: int) -> NDArray[np.float64]:
        after = np.arange(1.0, many + 1)
        deviations = np.cumsum((value - 0.5) ** 2 / after**2)
        deviations += 0.25 - (value - 0.5) ** 2
        after *= 2 * limit / count
        return np.sqrt(np.divide(after, deviations, out=after), out=after)

    def below(most: float) -> NDArray[np.float64]:
        nonlocal stakes
        enough = 1 + count * min(1.0, most * most * most_deviations / (2 * limit))
        if len(stakes) < min(count, enough):
            stakes = first(min(count, int(1.1 * enough) + 1))
        return stakes[: np.searchsorted(stakes, most)]

    return below


def _planned(x: NDArray[np.float64], stakes: NDArray[np.float64]) -> Wealth:
    def wealth(mean: float) -> float:
        return float(np.log1p(np.minimum(stakes, _MOST / mean) * (x - mean)).cumsum().max(initial=0.0))

    return wealth


def _alike(value: float, count: int, below: Callable[[float], NDArray[np.float64]]) -> Wealth:
    """Return `_planned` for `count` equal values. If a stake has the largest allowed size, so do all later stakes."""

    def wealth(mean: float) -> float:
        most = _MOST / mean
        stakes = below(most)
        at_most = (count - len(stakes)) * math.log1p(most * (value - mean))
        return max(0.0, float(np.log1p(stakes * (value - mean)).sum()) + at_most)

    return wealth
