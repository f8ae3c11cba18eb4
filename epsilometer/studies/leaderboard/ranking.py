"""Which of several mechanisms is better, where that can be told: paired tests over splits.

Splits are disjoint, so the differences of two mechanisms over five splits are five independent draws of a population of
texts, at budgets that are taken as given. A pair is ordered where a two-sided paired t test of its five differences
rejects "equally good" at 5 % for all pairs of a class together (Holm 1979): with probability .95 no order is stated
between mechanisms that are equally good, as far as differences are normal. The rank of a mechanism is one more than the
number of those that are surely better: different ranks alone order nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import t as student

from epsilometer.auditing.results.comparison import holm

LEVEL = 0.05  # for all pairs of a class together


def surely_above(values: Mapping[str, Sequence[float]], level: float = LEVEL) -> dict[str, list[str]]:
    """Returns for each mechanism those that it is surely better than, in the order of `values`.

    values: of each mechanism one value a split, larger where it is better; paired by split.
    """
    pairs = list(combinations(values, 2))
    adjusted = holm([p_value(np.subtract(values[a], values[b])) for a, b in pairs])
    above: dict[str, list[str]] = {name: [] for name in values}
    for (a, b), p in zip(pairs, adjusted, strict=True):
        if p <= level:
            better, worse = (a, b) if np.mean(values[a]) > np.mean(values[b]) else (b, a)
            above[better].append(worse)
    return {name: [other for other in values if other in beaten] for name, beaten in above.items()}


def ranks(above: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Returns each mechanism's rank: one more than how many are surely above it."""
    return {name: 1 + sum(name in beaten for beaten in above.values()) for name in above}


def p_value(differences: np.ndarray) -> float:
    """Of the two-sided paired t test: 1 where all differences are 0, 0 where they are alike and not 0."""
    mean, deviation = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * student.sf(abs(mean) / deviation * len(differences) ** 0.5, len(differences) - 1))
