"""The coins of one run prove an epsilon near the truth for randomised response, and rarely one above it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from epsilometer.auditing.estimation.coins import p_value, unit_loss
from epsilometer.auditing.estimation.successes import estimate


def test_without_delta_it_is_binomial() -> None:
    right = np.arange(1600) < 1170
    assert unit_loss(right, np.zeros(1600), 0.01).loss == estimate(1170, 1600).loss
    assert p_value(1170, 1600, 1600, 1.0) == binom.sf(1169, 1600, 1 / (1 + math.exp(-1)))


def steinke(coins: int, guesses: int, successes: int, loss: float, delta: float) -> float:
    """Theorem 5.2 as it stands, by sums over all outcomes."""
    law = [binom.pmf(j, guesses, 1 / (1 + math.exp(-loss))) for j in range(guesses + 1)]
    most = max(sum(law[j] for j in range(max(0, successes - i), successes)) / i for i in range(1, coins + 1))
    return sum(law[successes:]) + 2 * coins * delta * most


@pytest.mark.parametrize(("coins", "guesses", "successes"), [(50, 50, 40), (60, 30, 29), (40, 20, 1)])
def test_with_delta_it_is_theorem_5_2(coins: int, guesses: int, successes: int) -> None:
    for loss, delta in [(0.0, 1e-3), (1.0, 1e-4), (2.5, 1e-5)]:
        exact = min(1.0, steinke(coins, guesses, successes, loss, delta))
        assert p_value(successes, guesses, coins, loss, delta) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("guesses", [30, 4_000, 50_000])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("loss", [0.0, 0.9, 4.0, 30.0])
def test_the_largest_average_needs_no_unlikely_count(guesses: int, share: float, loss: float) -> None:
    """Against all counts, from far below the mean to far above it."""
    successes, p = round(share * guesses), 1 / (1 + math.exp(-loss))
    below = np.cumsum(binom.pmf(np.arange(successes - 1, -1, -1), guesses, p))
    most = float((below / np.arange(1, successes + 1)).max())
    pure = float(binom.sf(successes - 1, guesses, p))
    assert p_value(successes, guesses, 10, loss, 1e-5) == min(1.0, pure + 2 * 10 * 1e-5 * most)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (1.0, 1e-3)])
def test_the_bound_holds_as_often_as_it_says(epsilon: float, delta: float) -> None:
    """Coins that the run ties together: with probability delta it gives all of them away, else each is flipped.

    alpha = .2, so at most 10 % of 200 bounds lie above the truth: more than 34 with probability 1e-3 each.
    """
    rng = np.random.default_rng(4)
    above = 0
    for _ in range(200):
        right = rng.random(300) < (1.0 if rng.random() < delta else 1 / (1 + math.exp(-epsilon)))
        above += unit_loss(right, rng.random(300), 0.2, delta).loss > epsilon
    assert above <= binom.isf(1e-3, 200, 0.1)


def test_what_is_given_away_all_at_once_refutes_a_bound_without_delta() -> None:
    """The delta of theorem 5.2 is paid for each coin: with .05 and 300 coins all may be known in every run."""
    everything = np.ones(300, bool)
    assert unit_loss(everything, np.zeros(300), 0.01).loss > 3
    assert unit_loss(everything, np.zeros(300), 0.01, 0.05).loss == 0


def test_a_small_delta_costs_little() -> None:
    right = np.random.default_rng(5).permutation(1600) < 1170
    pure = unit_loss(right, np.zeros(1600), 0.01).loss
    assert 0.7 * pure < unit_loss(right, np.zeros(1600), 0.01, 1e-7).loss < pure
