"""Bounds from evidence at a stated error, and the status of a limit that they give."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.evidence.evidence import AtLeast, Computed, Confident, Covers, Data, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.evidence.wealth import tail_wealth

_NEAR_1 = 1 - 1e-9  # the largest delta that is compared


def bounds(data: Data, scale: Scale, below: float, above: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the figure, in the scale's unit.

    below, above: the probabilities with which they may be wrong. The number of trials was fixed beforehand. A
    computation that is wrong more often gives no bound: 0, or infinity. Trials of one case among several give no upper
    bound: infinity.
    """
    if isinstance(data, Computed):
        return data.low if data.error <= below else 0.0, data.high if data.error <= above else math.inf
    if isinstance(data, Confident):
        return _tail_bounds(data, scale.candidates, below, above)
    if isinstance(data, AtLeast):
        return scale.figure(clopper_pearson(data.right, data.n, 2 * below)[0]), math.inf
    if isinstance(data, Hits):
        low, high = clopper_pearson(data.right, data.n, 2 * below)[0], clopper_pearson(data.right, data.n, 2 * above)[1]
    else:
        low, high = interval(data.shares, 2 * below, fixed=True)[0], interval(data.shares, 2 * above, fixed=True)[1]
    return scale.figure(low), scale.figure(high)


def status(evidence: Evidence, limit: Limit, below: float, above: float) -> Status:
    """Return the status of a limit by evidence of a number of trials that was fixed beforehand.

    below, above: the probabilities with which BEYOND and a pass may be wrong.
    """
    if limit.at_least:
        low, high = bounds(evidence.data, evidence.scale, above, below)
        exceeded, passes = high < limit.allowed, low >= limit.allowed
    else:
        low, high = bounds(evidence.data, evidence.scale, below, above)
        exceeded, passes = low > limit.allowed, high <= limit.allowed
    if exceeded:
        return Status.BEYOND
    return passed(evidence) if passes else Status.OPEN


def _tail_bounds(data: Confident, candidates: int, below: float, above: float) -> tuple[float, float]:
    """Return the deltas at which a bettor's wealth reaches 1 / error, each wrong with that error (Markov's inequality).

    The wealth of the bettor who bets on more falls as delta grows, that of the other one rises.
    """

    def more(delta: float) -> float:
        return tail_wealth(data, delta, candidates)[0] - math.log(1 / below)

    def less(delta: float) -> float:
        return tail_wealth(data, delta, candidates)[1] - math.log(1 / above)

    low = 0.0 if more(0.0) <= 0 else _root(more)
    return low, 1.0 if less(_NEAR_1) <= 0 else _root(less)


def _root(missing: Callable[[float], float]) -> float:
    """Return the delta at which a monotone function changes its sign; else the end where it comes closest."""
    ends = missing(0.0), missing(_NEAR_1)
    if ends[0] * ends[1] > 0:
        return 0.0 if abs(ends[0]) < abs(ends[1]) else _NEAR_1
    return float(brentq(missing, 0.0, _NEAR_1, xtol=1e-9))


def passed(evidence: Evidence) -> Status:
    """Return the status of a limit that an upper bound shows kept."""
    return Status.WITHIN if evidence.covers is Covers.EVERYONE else Status.NOT_EXCEEDED
