"""The number of trials that an audit needs to test a claim, or to give an interval of some width. Losses are in nats.

Both functions assume a mechanism with loss l, k candidates, and the best possible adversary, who is right with
probability e^l / (e^l + k - 1) (TeDA eq. 10), as for randomised response over the candidates. The number of right
guesses is binomial, and its probabilities are computed exactly. A weaker attack needs more trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincinv
from scipy.stats import binom

from epsilometer.auditing.claims.verdicts import p_value
from epsilometer.auditing.estimation.successes import estimate, success_bound
from epsilometer.core.errors import UserError

_MOST = 1 << 40  # largest number of trials of a plan


def trials_to_refute(claim: float, leak: float, power: float, candidates: int, level: float) -> int:
    """Return the fewest trials that refute a claim at `level` with probability `power`, if `leak` is the true loss.

    claim, leak: losses in nats; an infinite leak makes every guess right. Raises UserError for a leak within the claim,
    since no audit can then refute the claim, and for values outside their range.
    """
    _check(power, candidates, level)
    if not 0 <= claim < leak:
        raise UserError(
            f"leak must be above the claim ({claim:g} nats), since a smaller leak keeps the claim, got {leak:g}",
            "EPS-A141",
        )
    allowed, right = success_bound(claim, candidates), success_bound(leak, candidates)

    def trials(wrong: int) -> int:
        """Return the fewest trials that refute the claim with this number of wrong guesses."""
        return _first(lambda t: p_value(t - wrong, t, t * allowed) <= level, wrong + 1)

    def enough(wrong: int) -> bool:
        # At a fixed number of wrong guesses, power decreases with every further trial.
        t = trials(wrong)
        return bool(betainc(t - wrong, wrong + 1, right) >= power)

    return trials(_first(enough, 0))


def trials_for_width(loss: float, width: float, power: float, candidates: int, alpha: float) -> int:
    """Return a number of trials whose interval is at most `width` nats wide with probability `power`.

    The probability is not monotone in the number of trials: with one trial fewer than returned, it is too small, but
    with even fewer trials it may be large enough again. loss: the true loss. The interval extends from an estimate's
    lower bound (`Estimate.loss`) to its `upper`. Raises UserError for values outside their range.
    """
    _check(power, candidates, alpha)
    if not (width > 0 and loss >= 0 and math.isfinite(loss)):
        raise UserError(
            f"loss must be finite and >= 0, and width > 0, got loss {loss:g} and width {width:g}", "EPS-A142"
        )
    right = success_bound(loss, candidates)

    def enough(trials: int) -> bool:
        likely = np.arange(binom.ppf(1e-12, trials, right), binom.isf(1e-12, trials, right) + 1)
        with np.errstate(divide="ignore"):
            ends = [
                np.log(np.maximum(1, (candidates - 1) * p / (1 - p)))
                for p in (
                    betaincinv(np.maximum(likely, 1), trials - likely + 1, alpha / 2) * (likely > 0),
                    np.where(likely < trials, betaincinv(likely + 1, np.maximum(trials - likely, 1), 1 - alpha / 2), 1),
                )
            ]
        narrow = ends[1] - ends[0] <= width
        return bool(binom.pmf(likely[narrow], trials, right).sum() >= power)

    return _first(enough, 1)


def _check(power: float, candidates: int, alpha: float) -> None:
    estimate(0, 1, candidates, alpha)  # raises for invalid candidates and alpha
    if not 0 < power < 1:
        raise UserError(f"power must be in (0, 1), got {power:g}", "EPS-A143")


def _first(holds: Callable[[int], bool], least: int) -> int:
    """Return the first number from `least` on for which the condition holds, by doubling and bisection."""
    step = 1
    while not holds(least + step - 1):
        if least + step > _MOST:
            raise UserError(
                f"more than {_MOST:,} trials are needed; ask for a larger width or a larger leak", "EPS-A144"
            )
        step *= 2
    low, high = least + step // 2, least + step - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
