"""Upper bounds on the risk: the probability that an adversary finds the source of a rewrite among k texts.

Let the source be one of k equally likely texts, and s the probability that an adversary's guess G is right. P_i denotes
a probability given that text i is the source. By the definition of delta(level),

    P_i(G = i) <= e^level P_j(G = i) + delta_ij(level)                              for any two texts i and j.

Summed over all ordered pairs of different texts, the left side is (k - 1) k s and the first term of the right side is
e^level k (1 - s), because sum_i P_j(G = i) = 1. Let delta(level) without indices be the mean over these pairs. Then

    s <= (e^level + (k - 1) delta(level)) / (e^level + k - 1)                       for every level,

which is TeDA's eq. 10 solved for s (`successes.success_bound`). For k = 2, the bound is attained at level 0: s = (1 +
delta(0)) / 2. A mean delta over the pairs of a corpus applies to k texts that differ from each other like the texts of
those pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.estimation.tail import TAIL
from epsilometer.auditing.exact_loss.all_pairs import ALL_PAIRS


def largest_success(levels: Iterable[float], deltas: Iterable[float], candidates: int) -> float:
    """Return an upper bound, at least 1 / k, on any adversary's mean share of right guesses among k candidates.

    levels: in nats. deltas: the mean delta over pairs of texts at each level, rounded up.
    """
    bounds = (
        success_bound(level, candidates, delta=min(1.0, delta)) for level, delta in zip(levels, deltas, strict=True)
    )
    return min(bounds, default=1.0)


def largest_success_of_pairs(law: Mapping[str, Any], curve: Iterable[tuple[float, float]], candidates: int) -> float:
    """Return the bound of `largest_success` for the compared pairs, by their deltas and the largest pure loss.

    law: a row of `EXACT`. curve: pairs of a level and a mean delta, rounded up.
    """
    levels, deltas = zip(*curve, strict=True)
    return min(largest_success(levels, deltas, candidates), _by_largest_loss(law, candidates))


def _by_largest_loss(law: Mapping[str, Any], candidates: int) -> float:
    return success_bound(law["relative_epsilon"], candidates) if law["relative_method"] == ALL_PAIRS else 1.0


def largest_success_over_all(law: Mapping[str, Any], trial_size: int, candidates: int) -> float | None:
    """Return the bound of `largest_success` over all pairs that trials can draw, at confidence 99 %, or None.

    law: a row of `EXACT`. Its upper bounds over all pairs give delta at the levels 0 and 4. If its largest pure loss
    was computed over all pairs, this loss also bounds delta at each level. trial_size: the number of candidates per
    trial in that row.
    """
    bounds = [_by_largest_loss(law, candidates)] if law["relative_method"] == ALL_PAIRS else []
    if law["all_delta_at_4"] is not None:
        bounds.append(success_bound(TAIL, candidates, delta=law["all_delta_at_4"]))
    if law["all_high"] is not None and trial_size == 2:
        bounds.append(success_bound(0.0, candidates, delta=2 * success_bound(law["all_high"], 2) - 1))
    if law["all_high"] is not None and trial_size == candidates:
        bounds.append(success_bound(law["all_high"], candidates))
    return min(bounds, default=None)
