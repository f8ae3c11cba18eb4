"""The worst case of a claim in zCDP, Renyi or GDP under stated laws, over all orders or levels, for a pair of inputs.

For laws P and Q on finitely many outputs, K(a) = ln sum P^a Q^(1 - a) is (a - 1) times the Renyi divergence of order a.
K is convex. If every output of P is possible under Q, then K(1) = 0, and K(a) <= (a - 1) L for the largest loss L.

- **zCDP** claims K(a) <= rho a (a - 1) for every a > 1. For a >= L / rho this inequality always holds. The smaller
  orders are divided into intervals. In an interval K lies below its chord, so the interval is settled if the chord
  never exceeds the claim by more than a 100,000th of the claim. Otherwise the interval is halved. A violation is a
  value of K above the claim at a midpoint.
- **Renyi** claims K(a) <= (a - 1) epsilon at its order. Divergences do not decrease with the order, so a claim that is
  true at its order is also true at all smaller orders.
- **GDP** claims P(S) <= Phi(Phi^-1(Q(S)) + mu) for every set S of outputs. Only sets of the outputs with the largest
  ratios P / Q need comparison: the curve through the points (Q(S), P(S)) of these sets is piecewise linear, and
  Phi(Phi^-1(x) + mu) is concave.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from epsilometer.core.curves import Curve, Gdp, Renyi, Zcdp

ROUNDING = 1e-9  # tolerance, both relative to the claim and absolute
_BETWEEN = 1e-5  # as a share of the claim; smaller excesses between two orders are ignored
_NEVER = -1e299  # replaces the logarithm of 0

Array = NDArray[np.float64]


def needed(curve: Curve, p: Array, q: Array) -> float:
    """Return the smallest rho, divergence at the claim's order, or mu that holds for log-laws p against q [outputs].

    The reverse direction, q against p, is not compared. For zCDP, the result is not exact: it is above the claimed rho
    if the claim is violated, and otherwise at most the claimed rho.
    """
    p, q = (np.where(law < _NEVER, -np.inf, law) for law in (p, q))
    if np.array_equal(p, q):
        return 0.0
    seen = p > -np.inf
    if isinstance(curve, Gdp):
        return _mu(p, q)
    if (q[seen] == -np.inf).any():
        return math.inf
    p, q = p[seen], q[seen]
    if isinstance(curve, Renyi):
        return max(0.0, _cumulant(p, q, curve.order) / (curve.order - 1))
    return _rho(curve, p, q)


def _rho(curve: Zcdp, p: Array, q: Array) -> float:
    """Return the largest computed K(a) / (a (a - 1)), once all intervals are settled or a violation is found."""
    last = max(2.0, float((p - q).max()) / curve.rho)
    slack = curve.rho * (1 + ROUNDING) + ROUNDING

    def ratio(order: float, value: float) -> float:
        return value / (order * (order - 1))

    ends = [(1.0, 0.0), (last, _cumulant(p, q, last))]
    largest, open_intervals = ratio(*ends[1]), [(ends[0], ends[1])]
    while open_intervals and largest <= slack:
        (a, low), (b, high) = open_intervals.pop()
        # The chord minus the claim rho x (x - 1) is concave: it is largest where chord and claim have equal slopes, or
        # at an end.
        slope = (high - low) / (b - a)
        at = min(max((slope / curve.rho + 1) / 2, a), b)
        if low + slope * (at - a) <= curve.rho * at * (at - 1) * (1 + _BETWEEN) + ROUNDING:
            continue
        middle = (a + b) / 2
        value = _cumulant(p, q, middle)
        largest = max(largest, ratio(middle, value))
        open_intervals += [((a, low), (middle, value)), ((middle, value), (b, high))]
    return largest


def _mu(p: Array, q: Array) -> float:
    order = np.argsort(-(np.where(p == -np.inf, -np.inf, p) - np.where(q == -np.inf, -1e308, q)), kind="stable")
    here, there = np.exp(p[order]), np.exp(q[order])
    right, wrong = here.cumsum()[:-1], there.cumsum()[:-1]
    missed, rejected = here[::-1].cumsum()[::-1][1:], there[::-1].cumsum()[::-1][1:]
    with np.errstate(invalid="ignore"):
        first = np.where(right < 0.5, ndtri(np.minimum(right, 1)), -ndtri(np.minimum(missed, 1)))
        second = np.where(wrong < 0.5, ndtri(np.minimum(wrong, 1)), -ndtri(np.minimum(rejected, 1)))
        each = first - second
    each = each[~np.isnan(each)]  # NaN for the empty set and for all outputs
    return max(0.0, float(each.max(initial=0.0)))


def _cumulant(p: Array, q: Array, order: float) -> float:
    return float(logsumexp(order * p + (1 - order) * q))
