"""Rates of membership attacks, against scores of known law.

Unless stated otherwise, members score N(mu, 1) and others N(0, 1). So the area is Phi(mu / sqrt 2), and TPR(t) = 1 -
Phi(t - mu).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from epsilometer.studies.training.results.rates import (
    MEMBERS,
    OTHERS,
    MembershipScores,
    area,
    best_threshold,
    curve,
    difference,
    halves,
    leakage,
    loss,
    rates,
    threshold_at,
)
from tests.support.refusals import refused

RUNS, ALPHA = 600, 0.1
FALSE_ALARM = 1e-6  # of each test of coverage below, by the binomial law of misses


def gaussian_scores(mu: float, n: int, m: int, rng: np.random.Generator) -> MembershipScores:
    return MembershipScores(rng.normal(mu, 1, n), rng.normal(0, 1, m))


def allowed(chance: float) -> int:
    return int(binom.isf(FALSE_ALARM, RUNS, chance))


@pytest.mark.parametrize("mu", [0.0, 0.7, 2.5])
def test_area_of_known_law(mu: float) -> None:
    """20,000 scores a side: the standard error is at most .003, so a gap of .015 has a chance below 1e-6."""
    interval = area(gaussian_scores(mu, 20_000, 20_000, np.random.default_rng(1)), 0.01)
    assert interval.value == pytest.approx(norm.cdf(mu / math.sqrt(2)), abs=0.015)
    assert interval.low < interval.value < interval.high < interval.low + 0.02


@pytest.mark.parametrize(("mu", "n", "m"), [(0.0, 60, 40), (1.0, 60, 200), (2.5, 150, 60)])
def test_the_area_is_covered(mu: float, n: int, m: int) -> None:
    """DeLong's interval is one for many examples: at these few a tenth may become an eighth, not more."""
    rng, truth = np.random.default_rng(2), norm.cdf(mu / math.sqrt(2))
    intervals = [area(gaussian_scores(mu, n, m, rng), ALPHA) for _ in range(RUNS)]
    misses = sum(not interval.low <= truth <= interval.high for interval in intervals)
    assert misses <= allowed(0.125)
    assert misses >= binom.ppf(FALSE_ALARM, RUNS, 0.08)  # the interval is not much wider than needed


@pytest.mark.parametrize("members", [1, 2, 5])
def test_the_area_is_covered_where_members_are_few(members: int) -> None:
    rng, truth = np.random.default_rng(4), norm.cdf(1 / math.sqrt(2))
    intervals = [area(gaussian_scores(1.0, members, 500, rng), ALPHA) for _ in range(RUNS)]
    assert sum(not interval.low <= truth <= interval.high for interval in intervals) <= allowed(0.125)


def test_the_area_equals_all_pairs_with_ties() -> None:
    rng = np.random.default_rng(3)
    scores = MembershipScores(rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 30).astype(float))
    pairs = scores.inside[:, None] - scores.outside
    assert area(scores, ALPHA).value == pytest.approx((pairs > 0).mean() + (pairs == 0).mean() / 2, abs=1e-12)
    false, true = curve(scores)
    assert np.trapezoid(true, false) == pytest.approx(area(scores, ALPHA).value, abs=1e-12)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)


def test_scores_that_never_cross_prove_no_certainty() -> None:
    """n disjoint pairs that all come out right prove an area of (alpha / 2)^(1/n), as n successes do of a rate."""
    apart = area(MembershipScores(np.arange(10.0) + 100, np.arange(20.0)), ALPHA)
    assert apart.value == apart.high == 1
    assert apart.low == pytest.approx(0.05 ** (1 / 10))
    alike = area(MembershipScores(np.zeros(10), np.zeros(20)), ALPHA)
    assert alike.low < alike.value == 0.5 < alike.high
    infinite = area(MembershipScores(np.array([np.inf, 1.0]), np.array([-np.inf, 0.0, 2.0])), ALPHA)
    assert infinite.value == pytest.approx(5 / 6)


@pytest.mark.parametrize("fpr", [0.1, 0.01, 0.001])
def test_rates_are_covered_at_thresholds_of_other_examples(fpr: float) -> None:
    rng, misses = np.random.default_rng(4), np.zeros(2, int)
    for _ in range(RUNS):
        chosen, measured = halves(gaussian_scores(1.0, 200, 400, rng), rng)
        threshold = threshold_at(fpr, chosen.outside)
        truth = norm.sf(threshold - 1), norm.sf(threshold)
        intervals = rates(measured, threshold, ALPHA)
        misses += [not interval.low <= t <= interval.high for interval, t in zip(intervals, truth, strict=True)]
    assert (misses <= allowed(ALPHA)).all()


def test_a_threshold_of_the_examples_that_it_is_measured_on_would_not_be_covered() -> None:
    """What the halves are for: with one sample for both, the FPR of 1 % comes out at exactly that, whatever it is."""
    rng, truth = np.random.default_rng(5), []
    for _ in range(RUNS):
        scores = gaussian_scores(1.0, 50, 100, rng)
        threshold = threshold_at(0.01, scores.outside)
        assert rates(scores, threshold, ALPHA)[1].value == 0.01
        truth.append(norm.sf(threshold))
    assert np.std(truth) > 0.005


def test_a_threshold_lets_no_more_pass_than_said() -> None:
    outside = np.array([5.0, 4, 4, 3, 2, 1, 0, 0, 0, 0])
    assert threshold_at(0.1, outside) == 4
    assert threshold_at(0.25, outside) == 4
    assert threshold_at(0.05, outside) == 5  # too few examples for 5 %, so none of them may exceed the threshold
    for fpr in (0.05, 0.1, 0.2, 0.3, 0.5):
        assert (outside > threshold_at(fpr, outside)).mean() <= fpr


def test_leakage_is_covered_and_near_its_best() -> None:
    """The largest TPR - FPR is 2 Phi(mu / 2) - 1, at mu / 2."""
    rng, misses = np.random.default_rng(6), 0
    for _ in range(RUNS):
        chosen, measured = halves(gaussian_scores(1.0, 200, 200, rng), rng)
        threshold = best_threshold(chosen)
        interval = leakage(measured, threshold, ALPHA)
        misses += not interval.low <= norm.sf(threshold - 1) - norm.sf(threshold) <= interval.high
    assert misses <= allowed(ALPHA)
    assert best_threshold(gaussian_scores(1.0, 50_000, 50_000, rng)) == pytest.approx(0.5, abs=0.15)
    assert difference(np.array([True, True]), np.array([True, False]), ALPHA).value == 0.5


def test_the_loss_is_below_the_truth() -> None:
    """At whichever threshold and side the first half chooses; each miss has a chance of at most alpha / 2."""
    rng, misses, shown, runs = np.random.default_rng(7), 0, [], 200
    for _ in range(runs):
        chosen, measured = halves(gaussian_scores(1.5, 600, 600, rng), rng)
        bound = loss(chosen, measured, ALPHA)
        above = norm.sf(bound.threshold - 1.5), norm.sf(bound.threshold)
        truth = above[0] / above[1] if bound.named == MEMBERS else (1 - above[1]) / (1 - above[0])
        misses += bound.loss > math.log(truth)
        shown.append(bound.loss)
        assert bound.loss <= min(bound.point, bound.ceiling)
    assert misses <= binom.isf(FALSE_ALARM, runs, ALPHA / 2)
    assert np.median(shown) > 1.2  # the loss is about 2.5 at the thresholds that 300 examples per side allow


@pytest.mark.parametrize("named", [MEMBERS, OTHERS])
def test_the_loss_of_randomised_response_is_its_epsilon(named: str) -> None:
    """Scores of 1 with e^2 times the probability on one side; half of 20,000 examples prove most of it, never more."""
    rng, rare = np.random.default_rng(8), 0.02
    likely = rare * math.exp(2)
    inside, outside = (rng.random(20_000) < p for p in (likely, rare))
    scores = MembershipScores(inside.astype(float), outside.astype(float))
    if named == OTHERS:
        scores = MembershipScores(1 - scores.outside, 1 - scores.inside)
    bound = loss(*halves(scores, rng), alpha=1e-4)  # false alarm below 5e-5
    assert bound.named == named
    assert 1.4 < bound.loss < 2 < bound.ceiling


def test_delta_is_given_away() -> None:
    """Members who are told by a coin of .05 alone prove nothing beyond a delta of .05."""
    rng = np.random.default_rng(9)
    scores = MembershipScores((rng.random(20_000) < 0.05).astype(float), np.zeros(20_000))
    chosen, measured = halves(scores, rng)
    assert loss(chosen, measured, 1e-4).loss > 3
    assert loss(chosen, measured, 1e-4, delta=0.05).loss < 0.2  # false alarm below 5e-5


def test_bad_scores_are_refused() -> None:
    with refused("EPS-A066", "0", "2"):
        MembershipScores.of(np.array([1.0, 2.0, np.nan]), np.array([False, False, True]))
    with refused("EPS-A068", "1", "3"):
        halves(MembershipScores(np.zeros(1), np.zeros(3)), np.random.default_rng(0))
    with refused("EPS-A067"):
        MembershipScores(np.array([np.nan]), np.zeros(3))
