"""The tail by attacks: what sure guesses prove of delta at 4 nats, and that they prove no more than is true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.estimation.tail import Scored, difference, ends, fewest_without, lower_end, threshold

ALPHA = 0.01
FALSE_ALARM = 1e-9


def coin(share: float, trials: int, seed: int, k: int = 2) -> Scored:
    """The best attack on a mechanism that shows the text with this probability, and otherwise nothing."""
    generator = np.random.default_rng(seed)
    shows = generator.random(trials) < share
    return Scored(shows | (generator.random(trials) < 1 / k), shows.astype(float))


def response(epsilon: float, trials: int, seed: int, k: int = 2) -> Scored:
    """Randomised response among k, whose outputs prove epsilon each; names the output, half of the time surely."""
    generator = np.random.default_rng(seed)
    right = generator.random(trials) < math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    return Scored(right, (generator.random(trials) < 0.5).astype(float))


def test_the_bound_is_that_of_both_rates_on_the_second_half() -> None:
    """By hand: the first half chooses the threshold 1, the second has 300 hits and a miss at it."""
    right, scores = np.ones(2000, bool), np.zeros(2000)
    scores[:600], scores[1000:1301] = 1.0, 1.0
    right[600:1000], right[1300], right[1301:] = False, False, False
    low = clopper_pearson(300, 1000, ALPHA / 2)[0]
    high = clopper_pearson(1, 1000, ALPHA / 2)[1]
    assert threshold(Scored(right[:1000], scores[:1000]), 2, ALPHA)[0] == 1.0
    assert lower_end([Scored(right, scores)], 2, ALPHA) == max(0.0, low - math.exp(4) * high)
    assert difference(300, 1, 1000, 2) == pytest.approx(0.3 - math.exp(4) / 1000)


def test_the_upper_end_is_of_the_guesses_that_were_chosen() -> None:
    """By the same rates turned round: below their difference in at most alpha / 2 of 200 runs."""
    share = 0.2
    highs = [both[1] for seed in range(200) if (both := ends([coin(share, 2_000, seed)], 2, ALPHA)) is not None]
    assert len(highs) == 200
    assert sum(high < share for high in highs) <= stats.binom.isf(FALSE_ALARM, 200, ALPHA / 2)
    right = np.arange(2_000) % 2 == 0
    assert ends([Scored(right, np.ones(2_000))], 2, ALPHA) == (0, 0)
    nobody = fewest_without(0.01, ALPHA)
    assert ends([Scored(np.zeros(nobody, bool), None)], 2, ALPHA) == (0, 0)
    second = nobody - nobody // 2
    assert clopper_pearson(0, second, ALPHA / 2)[1] <= 0.01 < clopper_pearson(0, second - 1, ALPHA / 2)[1]
    assert (nobody - 1) - (nobody - 1) // 2 < second, "one trial fewer is too few"


def test_a_coin_is_seen_and_not_overstated() -> None:
    """One nat on average, and .46 of the texts shown: proved to nearly that; above it in at most alpha / 2 of runs."""
    share = math.tanh(0.5)
    proved = [lower_end([coin(share, 20_000, seed)], 2, ALPHA) for seed in range(200)]
    assert min(p for p in proved if p is not None) > 0.35
    above = sum(p is None or p > share for p in proved)
    assert above <= stats.binom.isf(FALSE_ALARM, 200, ALPHA / 2)


@pytest.mark.parametrize("k", [2, 5])
def test_pure_epsilon_of_4_has_no_tail(k: int) -> None:
    """At epsilon 4 itself, where the difference of rates is 0: proved above it in at most alpha / 2 of 200 runs."""
    above = sum(bool(lower_end([response(4.0, 4000, seed, k)], k, ALPHA)) for seed in range(200))
    assert above <= stats.binom.isf(FALSE_ALARM, 200, ALPHA / 2)


def test_k_candidates_share_the_misses() -> None:
    """The coin among ten: a miss is a miss of one other candidate of nine."""
    share = 0.5
    value = lower_end([coin(share, 20_000, 0, k=10)], 10, ALPHA)
    assert value is not None
    assert 0.4 < value < share


def test_too_few_trials_are_not_testable() -> None:
    """The fewest that could prove anything: every guess of the second half right."""

    def perfect(trials: int) -> Scored:
        return Scored(np.ones(trials, bool), np.ones(trials))

    assert lower_end([perfect(656)], 2, ALPHA) is None
    assert lower_end([perfect(670)], 2, ALPHA) == pytest.approx(0, abs=0.03)
    assert lower_end([perfect(1)], 2, ALPHA) is None
    assert (lower_end([perfect(20_000)], 2, ALPHA) or 0) > 0.96


def test_the_attack_is_chosen_on_the_first_half() -> None:
    """Of two attacks the one that is right there; the second half, on which it is wrong, proves nothing."""
    halves = np.arange(20_000) < 10_000
    first, second = Scored(halves, np.ones(20_000)), Scored(~halves, np.ones(20_000))
    assert lower_end([first, second], 2, ALPHA) == 0
    good = coin(0.5, 20_000, 1)
    assert lower_end([coin(0.0, 20_000, 2), good], 2, ALPHA) == lower_end([good], 2, ALPHA)


def test_an_attack_without_scores_has_one_threshold() -> None:
    """All of its guesses: right every time, or no evidence."""
    assert (lower_end([Scored(np.ones(10_000, bool), None)], 2, ALPHA) or 0) > 0.9
    half = np.arange(10_000) % 2 == 0
    assert lower_end([Scored(half, None)], 2, ALPHA) == 0


@pytest.mark.parametrize("trials", [1, 2, 700, 5000])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9, 1.0])
def test_the_threshold_is_the_best_of_all(trials: int, rate: float) -> None:
    """Beside the bounds of every threshold; of those that prove as much the largest. An attack may always be wrong."""
    generator = np.random.default_rng(trials)
    scores = np.round(generator.random(trials), 2)
    right = generator.random(trials) < rate + (1 - rate) * scores * (rate > 0)
    values = np.unique(scores)[::-1]
    proved = []
    for value in values:
        hits, misses = Scored(right, scores).beyond(value)
        low = clopper_pearson(hits, trials, ALPHA / 2)[0]
        proved.append(low - math.exp(4) * clopper_pearson(misses, trials, ALPHA / 2)[1])
    at, most = threshold(Scored(right, scores), 2, ALPHA)
    assert at == values[int(np.argmax(proved))]
    assert most == pytest.approx(max(proved), abs=1e-12)


def test_scores_may_be_infinite() -> None:
    scores = np.where(np.arange(4000) % 2, np.inf, 0.0)
    right = np.arange(4000) % 4 > 0
    assert (lower_end([Scored(right, scores)], 2, ALPHA) or 0) > 0.2
