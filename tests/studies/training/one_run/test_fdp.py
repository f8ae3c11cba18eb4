"""The bound for a whole curve: above every mechanism's law, equal to known cases, and rarely violated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from epsilometer.auditing.estimation import coins as steinke
from epsilometer.studies.training.one_run.fdp import Counts, Profile, at_delta, gaussian, p_value, proved, refuted
from tests.support.profiles import least_share
from tests.support.refusals import refused


def by_definition(right: int, guesses: int, coins: int, claim: Profile, *, level: float) -> bool:
    """The recursion as the module states it."""
    reached, above = level, 0.0
    for t in range(right - 1, -1, -1):
        above += reached
        needed = least_share(claim, min(1.0, (t * reached + above) / coins))
        reached = max(reached, (above + coins * needed) / (guesses - t))
    return reached > 1


def test_a_claim_is_refuted_as_the_recursion_says() -> None:
    """200 drawn profiles with up to six lines, and every number of right guesses."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        coins = int(rng.integers(1, 60))
        guesses = int(rng.integers(1, coins + 1))
        size = int(rng.integers(1, 7))
        claim = Profile(rng.exponential(1.0, size).tolist(), (rng.random(size) * 0.4).tolist())
        level = float(rng.choice([0.5, 0.05, 1e-4]))
        answers = [refuted(right, guesses, coins, claim, level=level) for right in range(guesses + 1)]
        assert answers == [by_definition(right, guesses, coins, claim, level=level) for right in range(guesses + 1)]


def test_the_curve_of_a_gaussian_is_its_trade_off_function() -> None:
    for share in (1e-9, 1e-4, 0.01, 0.3, 0.5):
        exact = ndtr(ndtri(share) - 1.5)
        assert 0.999 * exact <= least_share(gaussian(1.5), share) <= exact * (1 + 1e-9)


def test_a_bound_that_stands_still_does_so_down_to_no_right_guess() -> None:
    """Where the search ends early, against the whole recursion: thousands of coins, about the claims' limits."""
    answers = []
    for coins, guesses, claim in [(5_000, 5_000, gaussian(1.0)), (5_000, 700, at_delta(1e-4)(1.5))]:
        for right in range(guesses // 2, guesses, guesses // 40):
            answers.append(refuted(right, guesses, coins, claim, level=1e-3))
            assert answers[-1] == by_definition(right, guesses, coins, claim, level=1e-3)
    assert any(answers)
    assert not all(answers)


def most_right(coins: int, least: int, epsilon: float, delta: float) -> float:
    """The largest P(right >= least) of any (epsilon, delta)-private mechanism whose outputs are guesses of all coins.

    By linear programming over all laws: P(y | u), and for every neighbour what exceeds e^epsilon times the other.
    """
    every = list(itertools.product((0, 1), repeat=coins))
    number = {u: i for i, u in enumerate(every)}
    size = len(every)
    neighbours = [(u, (*u[:i], 1 - u[i], *u[i + 1 :])) for u in every for i in range(coins)]
    variables = size * size + len(neighbours) * size
    gain, above, limits = np.zeros(variables), [], []
    for u, y in itertools.product(every, every):
        if sum(a == b for a, b in zip(u, y, strict=True)) >= least:
            gain[number[u] * size + number[y]] = -1 / size
    for k, (u, other) in enumerate(neighbours):
        excess = size * size + k * size
        for y in range(size):  # P_u(y) - e^epsilon P_u'(y) <= excess of y >= 0
            row = np.zeros(variables)
            row[number[u] * size + y], row[number[other] * size + y], row[excess + y] = 1, -math.exp(epsilon), -1
            above.append(row)
            limits.append(0.0)
        total = np.zeros(variables)
        total[excess : excess + size] = 1
        above.append(total)
        limits.append(delta)
    sums = np.zeros((size, variables))
    for i in range(size):
        sums[i, i * size : (i + 1) * size] = 1
    return -float(linprog(gain, np.array(above), limits, sums, np.ones(size)).fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (1.0, 0.05), (2.0, 0.2)])
def test_no_mechanism_does_better(epsilon: float, delta: float) -> None:
    """The best of all laws, by linear programming: and the bound, which is it where all are to be right."""
    for coins, least in [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]:
        best = most_right(coins, least, epsilon, delta)
        bound = p_value(Counts([(least, coins)], coins), Profile([epsilon], [delta]))
        assert best <= bound * (1 + 1e-9)
        if least == coins:
            assert bound == pytest.approx(best, rel=1e-5)


def test_theorem_5_2_fails_where_it_does_not_matter() -> None:
    """Its probabilities near 1 are exceeded, those that refute anything are not."""
    assert most_right(2, 1, 2.0, 0.2) > steinke.p_value(1, 2, 2, 2.0, 0.2) + 0.002
    for epsilon, delta in [(0.0, 0.1), (1.0, 0.05), (2.0, 0.2)]:
        for coins in (2, 3):
            assert most_right(coins, coins, epsilon, delta) <= steinke.p_value(coins, coins, coins, epsilon, delta)


def test_of_a_pure_epsilon_it_says_little_more_than_a_binomial() -> None:
    for right, guesses in [(60, 60), (80, 100), (620, 1000)]:
        for epsilon in (0.1, 1.0, 3.0):
            exact = binom.sf(right - 1, guesses, 1 / (1 + math.exp(-epsilon)))
            assert exact * (1 - 1e-9) <= p_value(Counts([(right, guesses)], 5000), Profile([epsilon], [0.0]))
        pure = steinke.proved(right, guesses, 5000, delta=0.0, level=0.05)
        assert 0.9 * pure <= proved(Counts([(right, guesses)], 5000), at_delta(0.0), level=0.05) <= pure


def test_a_delta_as_large_as_one_in_the_number_of_coins_costs_little() -> None:
    assert steinke.proved(1000, 1000, 5000, delta=1 / 5056, level=0.05) == pytest.approx(3.503, abs=1e-3)
    assert proved(Counts([(1000, 1000)], 5000), at_delta(1 / 5056), level=0.05) == pytest.approx(5.803, abs=1e-3)


def test_below_the_level_delta_may_give_everything_away() -> None:
    assert p_value(Counts([(1000, 1000)], 1000), Profile([0.0], [0.01])) >= 0.01
    assert proved(Counts([(1000, 1000)], 1000), at_delta(0.01), level=0.009) == 0


@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 1.0), (2.0, 0.4)])
def test_on_randomised_response_it_holds_and_comes_near(epsilon: float, share: float) -> None:
    """At level .1, 200 runs: more than 34 bounds above the truth have a probability below 1e-3 each."""
    rng = np.random.default_rng(7)
    coins, guesses = 2000, round(2000 * share)
    right = rng.binomial(guesses, 1 / (1 + math.exp(-epsilon)), 200)
    claim = Profile([epsilon], [1e-4])
    assert sum(refuted(int(v), guesses, coins, claim, level=0.1) for v in right) <= binom.isf(1e-3, 200, 0.1)
    lower = [proved(Counts([(int(v), guesses)], coins), at_delta(1e-4), level=0.1, error=1e-3) for v in right[:20]]
    assert np.median(lower) > 0.88 * epsilon


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_on_the_gaussian_mechanism_it_holds_and_comes_near(mu: float) -> None:
    """At level .1, 200 runs: more than 34 claims refuted have a probability below 1e-3 each.

    The bound allows coins that a mechanism ties together, so independent ones show some .6 of mu.
    """
    rng = np.random.default_rng(8)
    coins, guesses = 2000, 200
    claim = gaussian(mu)
    counts = []
    for _ in range(200):
        scores = rng.standard_normal(coins) + mu / 2  # by symmetry, a larger score means a guess that is likelier right
        counts.append(int((scores[np.argsort(-np.abs(scores))[:guesses]] > 0).sum()))
    assert sum(refuted(v, guesses, coins, claim, level=0.1) for v in counts) <= binom.isf(1e-3, 200, 0.1)
    lower = [proved(Counts([(v, guesses)], coins), gaussian, level=0.1, error=1e-2) for v in counts[:10]]
    assert np.median(lower) > 0.55 * mu


def test_of_several_numbers_of_guesses_the_best_counts() -> None:
    pairs = [(700, 1000), (190, 200)]
    both = proved(Counts(pairs, 1000), gaussian, level=0.01, error=1e-3)
    each = [proved(Counts([pair], 1000), gaussian, level=0.01, error=1e-3) for pair in pairs]
    assert both == pytest.approx(max(each), rel=3e-3)


@pytest.mark.parametrize(
    ("epsilons", "deltas", "refusal"),
    [
        ([], [], ("EPS-A132", "0 and 0")),
        ([1.0], [], ("EPS-A132", "0 and 1")),
        ([-1.0], [0.1], ("EPS-A133", "-1.0", "0.1")),
        ([1.0], [1.5], ("EPS-A133", "1.0", "1.5")),
    ],
)
def test_what_is_no_profile_is_refused(epsilons: list[float], deltas: list[float], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        Profile(epsilons, deltas)
