"""Canaries against claims of a training: they do not refute true claims, and refute each mistake of training code."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.schedule import Poisson, Schedule, Shuffled
from epsilometer.accounting.steps import steps_of
from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
from epsilometer.core.guarantees import Neighbours
from epsilometer.studies.training.one_run.fdp import gaussian
from epsilometer.studies.training.one_run.scores import Judging, gaussian_epsilon, judged, ordered
from epsilometer.studies.training.one_run.training_claims import TRAINING, family, profile
from epsilometer.studies.training.runs.gradient_canaries import Canaries, run
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, TrainingNoise
from tests.support.broken.training_noise import BatchClipped, MeanNoiseOnSum, NotClipped, OneNoise, SumNoiseOnMean
from tests.support.profiles import least_share

SIGMA, CANARIES = 2.0, 2000
PLAN = Poisson(2000, 100, 5)
ADDED = Neighbours.ADDED_OR_REMOVED


def verdicts(noise: TrainingNoise, schedule: Schedule = PLAN, seed: int = 0) -> dict[str, str]:
    """Of the claim of `PLAN` with Gaussian noise, by the name of the score; all tests of a run share alpha .01."""
    audited = run(Canaries(CANARIES, CANARIES + 1), noise, schedule, seed)
    judging = Judging(1e-5, 0.01, guesses=1000, tests=len(audited.scores))
    claim = profile(Gaussian(SIGMA), PLAN, ADDED)
    by_kind = {}
    for name, scores in audited.scores.items():
        right = ordered(scores[audited.coins], scores[~audited.coins])
        by_kind[name] = judged(right, judging, claim=claim)[0]["verdict"]
    return by_kind


def test_what_is_claimed_rightly_stands() -> None:
    """A false alarm has probability at most .01."""
    assert set(verdicts(GaussianNoise(SIGMA)).values()) == {NOT_REFUTED}
    assert set(verdicts(GaussianNoise(SIGMA, clip=0.3)).values()) == {NOT_REFUTED}


@pytest.mark.parametrize("noise", [BatchClipped, MeanNoiseOnSum, NotClipped])
def test_noise_that_is_too_little_is_a_violated_claim(noise: type[GaussianNoise]) -> None:
    assert verdicts(noise(SIGMA))["likelihood"] == VIOLATED


def test_one_noise_for_all_steps_is_a_violated_claim() -> None:
    """Differences between steps have no noise; the sum has more than it should, and shows nothing."""
    by_kind = verdicts(OneNoise(SIGMA))
    assert by_kind["spread"] == VIOLATED
    assert by_kind["sum"] == NOT_REFUTED


def test_shuffled_batches_accounted_as_poisson_are_a_violated_claim() -> None:
    """Of fixed batches the same steps have a canary in every pass, whether or not their order is known."""
    assert verdicts(GaussianNoise(SIGMA), Shuffled(2000, 100, 5))["likelihood"] == NOT_REFUTED
    shuffled, poisson = Shuffled(2000, 100, 60), Poisson(2000, 100, 60)
    audited = run(Canaries(CANARIES, CANARIES + 1), GaussianNoise(SIGMA), shuffled, 0)
    scores = audited.scores["likelihood"]
    right = ordered(scores[audited.coins], scores[~audited.coins])
    for schedule, verdict in ((poisson, VIOLATED), (shuffled, "not testable")):
        claim = profile(Gaussian(SIGMA), schedule, ADDED)
        assert judged(right, Judging(1e-5, 0.01, guesses=1000), claim=claim)[0]["verdict"] == verdict


def test_noise_for_the_sum_on_the_mean_violates_nothing() -> None:
    """It is a hundred times too much: a mistake that costs utility, and no privacy."""
    assert set(verdicts(SumNoiseOnMean(SIGMA)).values()) == {NOT_REFUTED}


def test_directional_draws_stay_below_the_truth() -> None:
    """At level .1, 12 runs: more than 5 refuted have a probability below 1e-3."""
    noise, schedule, size = DirectionalNoise(25.0), Shuffled(300, 3, 1), 400
    claim = profile(VonMisesFisher(25.0, (size,)), schedule, Neighbours.REPLACED)
    refuted = 0
    for seed in range(12):
        audited = run(Canaries(300, size, replaced=True), noise, schedule, seed)
        scores = audited.scores["likelihood"]
        right = ordered(scores[audited.coins], scores[~audited.coins])
        refuted += judged(right, Judging(1e-5, 0.1, guesses=100), claim=claim)[0]["verdict"] == VIOLATED
    assert refuted <= binom.isf(1e-3, 12, 0.1)


def test_a_third_of_the_concentration_is_a_violated_claim() -> None:
    """Batches of one, so that nothing else hides a draw."""
    schedule, size = Shuffled(500, 1, 1), 501
    audited = run(Canaries(500, size, replaced=True), DirectionalNoise(16.0), schedule, 1)
    scores = audited.scores["placed"]
    right = ordered(scores[audited.coins], scores[~audited.coins])
    for kappa, verdict in ((16.0, NOT_REFUTED), (5.0, VIOLATED)):
        claim = profile(VonMisesFisher(kappa, (size,)), schedule, Neighbours.REPLACED)
        assert judged(right, Judging(1e-5, 0.01, guesses=400), claim=claim)[0]["verdict"] == verdict


def test_the_profile_of_full_batches_is_that_of_a_gaussian() -> None:
    claim, exact = profile(Gaussian(3.0), Poisson(50, 50, 9), ADDED), gaussian(1.0)
    for share in (1e-4, 1e-2, 0.2, 0.5):
        assert 0.6 * least_share(exact, share) <= least_share(claim, share) <= least_share(exact, share) * (1 + 1e-6)


def test_the_family_is_that_of_the_training() -> None:
    own = family(Gaussian(7.0), Poisson(50, 50, 9), ADDED)
    assert own.name == TRAINING
    assert own.epsilon(0.5, 1e-4) == pytest.approx(gaussian_epsilon(1.5, 1e-4), rel=0.03)
    directional = family(VonMisesFisher(5.0, (100,)), Shuffled(50, 50, 1), Neighbours.REPLACED)
    steps = steps_of(VonMisesFisher(20.0, (100,)), Shuffled(50, 50, 1), Neighbours.REPLACED)
    exact = bracket(steps.directions, steps.count, 1e-4)
    assert exact.lower <= directional.epsilon(2.0, 1e-4) <= exact.upper * 1.02


def test_a_bound_within_the_family_is_below_the_truth_and_above_that_of_any_mechanism() -> None:
    """At confidence 99.5 %."""
    plan = Poisson(CANARIES, CANARIES, 4)
    audited = run(Canaries(CANARIES, CANARIES + 1), GaussianNoise(2.0), plan, 3)
    right = ordered(audited.scores["likelihood"][audited.coins], audited.scores["likelihood"][~audited.coins])
    own = family(Gaussian(2.0), plan, ADDED)
    _, by_any, within = (row["lower"] for row in judged(right, Judging(1e-4, 0.01, 200), own))
    assert 0 < by_any < within < own.epsilon(0.5, 1e-4)
