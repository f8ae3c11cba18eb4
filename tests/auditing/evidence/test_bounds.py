"""Bounds from evidence: how often they are wrong, and which piece of evidence decides."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from epsilometer.auditing.estimation.tail import WEIGHT, Scored, threshold, thresholds
from epsilometer.auditing.evidence.bounds import bounds, decisive, status
from epsilometer.auditing.evidence.combined import combine
from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Data, Evidence, Hits, Means, Sure
from epsilometer.auditing.evidence.evidence import Confident as ConfidentGuesses
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.evidence.status import Status
from epsilometer.core.errors import LawError

NATS = Scale.loss(2)
FALSE_ALARM = 1e-9


def evidence(data: Data, by: By = By.ATTACK, covers: Covers = Covers.THESE, scale: Scale = NATS) -> Evidence:
    return Evidence("figure", by, scale, data, covers=covers)


def guesses(rng: np.random.Generator, trials: int, sure: float, wrong: float) -> Scored:
    """Right with the higher score in a share `sure`, wrong with it in a share `wrong`; else a coin with score 0."""
    u = rng.random(trials)
    scores = (u < sure + wrong).astype(float)
    return Scored(np.where(scores == 1, u < sure, rng.random(trials) < 0.5), scores)


@pytest.mark.parametrize(("sure", "wrong"), [(0.1, 0.0), (0.02, 0.0), (0.3, 0.002), (0.01, 0.01)])
def test_bounds_of_a_tail_contain_its_delta(sure: float, wrong: float) -> None:
    """Each end errs in at most a tenth of 300 runs, but for a false alarm of 1e-9."""
    rng, runs, error = np.random.default_rng(0), 300, 0.1
    delta = max(sure - WEIGHT * wrong, 0.0)
    low_errs = high_errs = 0
    for _ in range(runs):
        learnt, rest = guesses(rng, 300, sure, wrong), guesses(rng, 500, sure, wrong)
        at, grid = threshold(learnt, 2, 0.1)[0], thresholds(learnt)
        between = [Sure(int(hits), int(misses)) for hits, misses in rest.between(grid).T]
        data = ConfidentGuesses(Sure(*rest.beyond(at)), between, 500)
        low, high = bounds(data, Scale.tail(2), error, error)
        low_errs += low > delta + 1e-9
        high_errs += high < delta - 1e-9
    most = binom.isf(FALSE_ALARM, runs, error)
    assert low_errs <= most
    assert high_errs <= most


def test_many_sure_guesses_prove_a_tail() -> None:
    data = ConfidentGuesses(Sure(2000, 0), [Sure(10_000, 10_000), Sure(2000, 0)], 20_000)
    low, high = bounds(data, Scale.tail(2), 0.01, 0.01)
    assert 0.05 < low < 0.1 < high < 0.12


@pytest.mark.parametrize(
    ("data", "scale", "at_least", "word"),
    [
        (Hits(500, 1000), NATS, False, Status.NOT_EXCEEDED),
        (Hits(1000, 1000), NATS, False, Status.BEYOND),
        (Hits(3, 4), NATS, False, Status.OPEN),
        (Means([0.9] * 200, 1), Scale("similarity"), True, Status.NOT_EXCEEDED),
        (Means([0.1] * 200, 1), Scale("similarity"), True, Status.BEYOND),
        (Means([0.9, 0.1], 1), Scale("similarity"), True, Status.OPEN),
    ],
)
def test_a_limit_may_be_the_largest_or_the_smallest_value(
    data: Data, scale: Scale, at_least: bool, word: Status
) -> None:
    limit = Limit(0.5, scale, "asked for", at_least=at_least)
    assert status(evidence(data, scale=scale), limit, 0.005, 0.005) is word


def test_a_computation_that_errs_too_often_gives_no_bound() -> None:
    data = Computed(0.4, 0.6, 0.01)
    assert bounds(data, NATS, 0.05, 0.05) == (0.4, 0.6)
    assert bounds(data, NATS, 0.005, 0.05) == (0.0, 0.6)
    assert bounds(data, NATS, 0.05, 0.005) == (0.4, math.inf)


def test_a_lower_bound_beyond_the_limit_stands_and_else_what_covers_everyone_decides() -> None:
    limit = Limit(1.0, NATS, "asked for")
    law = evidence(Computed(0.0, 0.5, 0.0), By.LAW, Covers.EVERYONE)
    assert decisive([evidence(Hits(500, 1000)), law], limit, 0.005, 0.005) == (Status.WITHIN, law)
    shown = evidence(Hits(1000, 1000))
    assert decisive([law, shown], limit, 0.005, 0.005) == (Status.BEYOND, shown)
    coins = evidence(Hits(500, 1000))
    assert decisive([evidence(Hits(3, 4)), coins], limit, 0.005, 0.005) == (Status.NOT_EXCEEDED, coins)


def test_bounds_of_one_source_never_cross_and_of_two_are_a_contradiction() -> None:
    law = evidence(Computed(0.0, 0.5, 0.0), By.LAW, Covers.EVERYONE)
    with pytest.raises(LawError):
        combine([law, evidence(Computed(0.7, 2.0, 0.0), By.LAW, Covers.EVERYONE)], below=0.01, above=0.01)
    latents = evidence(Computed(0.0, 3.0, 0.0), By.LATENTS, Covers.EVERYONE)
    both = combine([law, latents, evidence(Hits(900, 1000))], below=0.01, above=0.01)
    assert both.crossed is not None
    assert both.crossed[1] is By.LAW
    assert both.high == (3.0, By.LATENTS)
    assert both.low is not None
    assert both.low[1] is By.ATTACK
    assert both.status(Limit(1.0, NATS, "")) is Status.BEYOND
    assert both.status(Limit(3.0, NATS, "")) is Status.WITHIN
    alone = combine([evidence(Hits(500, 1000))], below=0.01, above=0.01)
    assert alone.high is None, "attacks bound no other adversary from above"
    assert alone.status(Limit(5.0, NATS, "")) is Status.OPEN
