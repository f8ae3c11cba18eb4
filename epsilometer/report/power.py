"""The probability that a rule of `report.agreement` says *disagrees* if a claim is false.

A result decides a claim, for or against it, only if this probability is at least `LEAST` under an alternative that the
paper denies: the truth is on the wrong side of the claim, at a stated distance. If a paper prints two figures, the
stated distance is the distance between them, so the alternative reverses their order.

Figures are modelled as normal, with the standard deviations of their 99 % intervals, and shares of n texts as binomial.
If an interval begins at 0, its whole length counts as the half-width. Intervals of losses widen with the loss. If one
loss is claimed to be larger than another, the alternative reverses their order. The loss that was measured as larger is
then the smaller loss, and its interval would be narrower. Both losses therefore get the narrower of the two
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtr
from scipy.stats import binom

LEAST = 0.8
_DEVIATIONS = 2.5758  # standard deviations in the half-width of a 99 % interval

Ends = tuple[float, float]


def power(ends: Ends, rule: str, other: Ends, against: float, *, losses: bool = False) -> float:
    """Return the probability of *disagrees* if the truth is on the wrong side of the other figure, by `against`.

    ends: the ends of the cell's interval. other: the ends of the other figure's interval. losses: True if both
    figures are losses.
    """
    wide, wide_other = _half(ends), 0.0 if rule == "NEAR" else _half(other)
    if losses and rule != "NEAR" and other[0] != other[1]:
        wide = wide_other = min(wide, wide_other)
    if not math.isfinite(wide + wide_other):
        return 0.0
    deviation = math.hypot(wide, wide_other) / _DEVIATIONS
    beyond = against - wide - wide_other
    return float(ndtr(beyond / deviation)) if deviation else float(beyond >= 0)


def power_of_share(of: int, disagrees: Callable[[int], bool], truths: tuple[float, ...]) -> float:
    """Return the probability of *disagrees* for a share of n texts: the largest over the alternatives.

    of: n; disagrees: returns True if a count of the n texts disagrees; truths: the shares under the alternatives, which
    are clipped to the range 0 to 1.
    """
    against = [hits for hits in range(of + 1) if disagrees(hits)]
    return max(float(binom.pmf(against, of, min(max(truth, 0.0), 1.0)).sum()) for truth in truths)


def _half(ends: Ends) -> float:
    low, high = ends
    return high if low == 0 else (high - low) / 2
