"""A search finds the best arm, and its bound is valid. A bound from the trials that chose the arm is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from epsilometer.auditing.estimation.halving import Pull, Survivor, affordable, search
from epsilometer.auditing.estimation.successes import estimate, success_bound
from tests.support.broken import selected_on_itself

BUDGET = 2000


def paying(rates: np.ndarray, rng: np.random.Generator, spent: list[int] | None = None) -> Pull:
    """rates: [arms, attacks], the probability of a hit."""

    def pull(arms: np.ndarray, first: int, count: int) -> np.ndarray:
        if spent is not None:
            spent.append(len(arms) * count)
        return rng.random((len(arms), count, rates.shape[1])) < rates[arms, None]

    return pull


def above(find: Callable[[Pull, int, int], Survivor], epsilon: float, runs: int) -> int:
    """In how many searches among 32 pairs, all of this loss, the bound at alpha = .2 lies above it."""
    rng, count = np.random.default_rng(7), 0
    for _ in range(runs):
        survivor = find(paying(np.full((32, 2), success_bound(epsilon, 2)), rng), 32, BUDGET)
        count += estimate(int(survivor.right.sum()), len(survivor.right), alpha=0.2).loss > epsilon
    return count


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_bound_of_the_survivor_holds_as_often_as_it_says(epsilon: float) -> None:
    """At most 10 % of 300 bounds lie above the truth: more than 47 with probability 1e-3."""
    assert above(search, epsilon, 300) <= binom.isf(1e-3, 300, 0.1)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_a_bound_by_the_trials_that_selected_the_pair_is_caught(epsilon: float) -> None:
    assert above(selected_on_itself.search, epsilon, 300) > 5 * binom.isf(1e-3, 300, 0.1)


def test_the_worst_arm_and_its_best_attack_are_found() -> None:
    """One of 32 arms pays .9 under the second attack, the others .5: it is lost with probability below 1e-3 a run."""
    rates = np.full((32, 2), 0.5)
    rates[17, 1] = 0.9
    survivor = search(paying(rates, np.random.default_rng(0)), 32, BUDGET)
    assert (survivor.arm, survivor.attack) == (17, 1)
    assert estimate(int(survivor.right.sum()), len(survivor.right)).loss > 1.8


@pytest.mark.parametrize(("arms", "budget"), [(32, 2000), (2, 4), (5, 300), (1, 10), (256, 20_000)])
def test_half_of_the_budget_is_for_the_bound_and_no_more_is_spent(arms: int, budget: int) -> None:
    spent: list[int] = []
    survivor = search(paying(np.full((arms, 1), 0.5), np.random.default_rng(0), spent), arms, budget)
    assert sum(spent) == survivor.searched + len(survivor.right) <= budget
    assert len(survivor.right) >= budget // 2


def test_as_many_arms_as_can_be_told_apart() -> None:
    assert [affordable(budget) for budget in (4, 400, 2000, 20_000)] == [2, 8, 32, 256]
