"""Tiers of mechanisms, from paired tests over splits.

The splits are disjoint, so the differences of two mechanisms over five splits are five independent samples from a
population of texts. The tests treat the budgets as fixed. A pair of mechanisms is ordered if a two-sided paired t test
of its five differences rejects equality. The level is 5 % for all pairs of a class of claims together (Holm 1979).
If differences are normal, then with probability .95 or more, no two equally good mechanisms are ordered.

Tiers are assigned in the order of the means, from the best. A new tier begins at the first mechanism that is
significantly worse than some mechanism of the current tier. So no mechanism is significantly worse than another of the
same tier. Two mechanisms in different tiers may still not differ significantly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import t as student

from epsilometer.auditing.results.comparison import holm

LEVEL = 0.05  # significance level for all pairs of a class together


def surely_above(values: Mapping[str, Sequence[float]], level: float = LEVEL) -> dict[str, list[str]]:
    """Return, for each mechanism, the mechanisms that are significantly worse, in the order of `values`.

    values: for each mechanism, one value per split, in the order of the splits. Larger is better.
    """
    pairs = list(combinations(values, 2))
    adjusted = holm([p_value(np.subtract(values[a], values[b])) for a, b in pairs])
    above: dict[str, list[str]] = {name: [] for name in values}
    for (a, b), p in zip(pairs, adjusted, strict=True):
        if p <= level:
            better, worse = (a, b) if np.mean(values[a]) > np.mean(values[b]) else (b, a)
            above[better].append(worse)
    return {name: [other for other in values if other in beaten] for name, beaten in above.items()}


def tiers(means: Mapping[str, float], above: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the tier of each mechanism in `means`, 1 for the best.

    above: for each mechanism, the mechanisms that are significantly worse, as `surely_above` returns them.
    """
    tier: dict[str, int] = {}
    current: list[str] = []
    number = 1
    for name in sorted(means, key=lambda name: -means[name]):  # sorting is stable: ties have the order of `means`
        if any(name in above[other] for other in current):
            number, current = number + 1, []
        current.append(name)
        tier[name] = number
    return tier


def p_value(differences: np.ndarray) -> float:
    """Return the p-value of the two-sided paired t test; differences: [n].

    The p-value is 1 if all differences are 0, and 0 if they are all equal but not 0.
    """
    mean, deviation = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * student.sf(abs(mean) / deviation * len(differences) ** 0.5, len(differences) - 1))
