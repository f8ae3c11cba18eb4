"""Wealth of bettors on a limit, valid after any number of trials (Ville 1939; `gate_statistics`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betaln, logsumexp, xlogy

from epsilometer.auditing.estimation.tail import WEIGHT
from epsilometer.auditing.evidence.evidence import Confident, Hits, Sure
from epsilometer.auditing.evidence.limit import Limit

_STAKES = np.geomspace(0.001, 0.95, 14)  # stakes as shares of a bettor's wealth, as in `estimation/betting.py`


def wealth(data: Hits | Confident, limit: Limit) -> tuple[float, float]:
    """Return ln wealth of two bettors: the first bets that the limit is exceeded, the second that it is kept."""
    if isinstance(data, Hits):
        above, below = (log_wealth(data.right, data.n, limit.rate, way) for way in (True, False))
        return above, below
    of = partial(_log_wealths_of_tail, trials=data.n, delta=limit.allowed, candidates=limit.scale.candidates)
    return float(of([data.beyond], above=True).min()), float(of(data.between, above=False).min())


def log_wealth(successes: int, trials: int, bound: float, above: bool) -> float:
    """Return ln wealth of a bettor on a success probability above the bound, or below it if `above` is False."""
    misses = trials - successes
    share = (betaincc if above else betainc)(successes + 1, misses + 1, bound)
    if share <= 0:
        return -math.inf
    at_bound = xlogy(successes, bound) + xlogy(misses, 1 - bound)
    width = 1 - bound if above else bound
    return float(betaln(successes + 1, misses + 1) + math.log(share) - math.log(width) - at_bound)


def log_wealth_of_tail(sure: Sure, trials: int, delta: float, candidates: int, above: bool) -> float:
    """Return ln wealth of a bettor who bets that confident guesses exceed (or keep) a limit on delta at 4 nats."""
    return float(_log_wealths_of_tail([sure], trials, delta, candidates, above=above)[0])


def _log_wealths_of_tail(
    counts: Sequence[Sure], trials: int, delta: float, candidates: int, *, above: bool
) -> NDArray[np.float64]:
    miss = WEIGHT / (candidates - 1)
    stakes = _STAKES / (delta + miss) if above else -_STAKES / (1 - delta)
    gains = np.log1p(np.outer([1 - delta, -miss - delta, -delta], stakes))
    each = np.array([(*sure, trials - sum(sure)) for sure in counts])
    wealths: NDArray[np.float64] = logsumexp(each @ gains, axis=1) - math.log(len(_STAKES))
    return wealths
