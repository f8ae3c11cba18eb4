"""Search by successive halving for the arm with the largest payoff, and a bound on that payoff.

An arm is anything that can be tried repeatedly; here it is a pair of texts. In each trial, each attack is right or
wrong. The payoff of an arm is the success rate of its best attack. The search has one half of the budget. In each round
all remaining arms are tried equally often, and the better half of the arms stays, until one arm is left (Karnin, Koren
and Somekh 2013, "Almost optimal exploration in multi-armed bandits"). The trials of a search overestimate the payoff of
the arm that they select. So the other half of the budget gives fresh trials of the selected arm, with the attack that
was best on this arm in the search. Only the fresh trials bound the payoff. They select neither the arm nor the attack,
so the interval needs no correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FIRST = 4  # fewest trials of each arm in the first round

Pull = Callable[[NDArray[np.int64], int, int], NDArray[np.bool_]]
"""Maps (arms [n], first, count) to [n, count, attacks]: True for right attacks in trials first, ... of each arm."""


@dataclass(frozen=True)
class Survivor:
    """The best arm and attack of a search, by index.

    right: [trials], True for the attack's hits in fresh trials of that arm. searched: the search's number of trials,
    over all arms.
    """

    arm: int
    attack: int
    right: NDArray[np.bool_]
    searched: int


def affordable(budget: int) -> int:
    """Return the number of arms that half of a budget can search: a power of two, at least 2."""
    arms = 2
    while 2 * arms * math.log2(2 * arms) * _FIRST <= budget // 2:
        arms *= 2
    return arms


def search(pull: Pull, arms: int, budget: int) -> Survivor:
    """Find the best arm with one half of the budget, and run fresh trials of it with the other half."""
    left, done = np.arange(arms), 0
    right: NDArray[np.int64] | None = None  # [arms left, attacks]
    rounds, searched = max(1, math.ceil(math.log2(arms))), 0
    for _ in range(rounds):
        count = max(1, budget // 2 // (rounds * len(left)))
        successes = pull(left, done, count).sum(axis=1)
        right = successes if right is None else right + successes
        done, searched = done + count, searched + count * len(left)
        best = np.argsort(-right.max(axis=1), kind="stable")[: max(1, math.ceil(len(left) / 2))]
        left, right = left[best], right[best]
    assert right is not None
    attack = int(right[0].argmax())
    fresh = pull(left[:1], done, max(1, budget - searched))[0, :, attack]
    return Survivor(int(left[0]), attack, fresh, searched)
