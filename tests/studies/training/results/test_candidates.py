"""Losses proved by guesses among candidates for a noisy gradient: rows as for other mechanisms, and known values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2, norm

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.studies.training.attacks.reconstruction.candidates import BLOCK, Candidates, GradientPool
from epsilometer.studies.training.results.candidates import guesses, pair_law, table, trials
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, TrainingNoise
from epsilometer.studies.training.tables import CANDIDATES
from tests.support.sparing import first

OF = {"dataset": "d", "mechanism": "m"}


@pytest.fixture(scope="module")
def pool() -> GradientPool:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal(80) + generator.standard_normal((30, 80))
    return GradientPool.of(rows @ rows.T, 80)


def rows(pool: GradientPool, noises: dict[float | None, TrainingNoise], **settings: object) -> list[dict[str, object]]:
    attack = Candidates(**{"sizes": (2, 16), "trials": 6000} | settings)  # type: ignore[arg-type]
    words = np.arange(30) % 3
    return table(OF, attack, [pool], noises, words, seed=(0, 0), alpha=0.01).to_dicts()


def test_rows_have_the_law_within_their_interval_and_the_bound_above(pool: GradientPool) -> None:
    """Each interval misses with probability 1e-6, and the bound lies above all but for as much."""
    noises = {0.5: GaussianNoise(0.5), 20.0: DirectionalNoise(20.0)}
    estimates = rows(pool, dict(noises))
    assert [(estimate["level"], estimate["candidates"]) for estimate in estimates] == [
        (0.5, 2),
        (20.0, 2),
        (0.5, 16),
        (20.0, 16),
    ]
    for estimate in estimates:
        low, high = clopper_pearson(int(estimate["successes"]), 6000, 1e-6)  # type: ignore[call-overload]
        if estimate["candidates"] == 2:
            assert low < estimate["law"] < high  # type: ignore[operator]
        else:
            assert estimate["law"] is None
        assert low < estimate["bound"]  # type: ignore[operator]
        assert estimate["posterior_loss"] is not None  # hits agree with posteriors, so the sampler follows its law
        assert 0 < estimate["loss"] < estimate["ceiling"]  # type: ignore[operator]
    assert [estimate["verdict"] for estimate in estimates if estimate["level"] == 0.5] == ["no claim", "no claim"]


@pytest.mark.parametrize("noise", first(1, [GaussianNoise(0.5), DirectionalNoise(20.0)]))
def test_the_share_of_right_guesses_varies_about_the_law_of_its_pairs_like_independent_trials(
    pool: GradientPool, noise: TrainingNoise
) -> None:
    """Of 40 runs, (share - law of the same pairs) / its standard error is standard normal: in mean and in squares.

    Each of the two assertions fails by chance in 1e-6 of the cases. Distances one percent off in the law, or blocks
    that are drawn alike, would fail one of them.
    """
    every = []
    for run in range(40):
        sampled = trials(30, 2, 3 * BLOCK, (run,))
        (guessed,) = guesses([pool], sampled, [noise], seed=(run,))
        law = pair_law([pool], *sampled.candidates.T, noise=noise)
        assert law is not None
        every.append(((guessed.slots == sampled.target) - law).sum() / np.sqrt((law * (1 - law)).sum()))
    assert abs(np.sum(every)) < norm.isf(5e-7) * np.sqrt(40)
    assert chi2.ppf(5e-7, 40) < np.square(every).sum() < chi2.isf(5e-7, 40)


def test_a_draws_claim_is_tested_where_it_could_be_refuted(pool: GradientPool) -> None:
    """kappa times the distance between two directions, 2 kappa among more; a draw of its own law never violates it."""
    weak = rows(pool, {0.3: DirectionalNoise(0.3)}, sizes=(2,))[0]
    assert weak["verdict"] == "not refuted"
    assert weak["covered"] == 6000
    strong = rows(pool, {500.0: DirectionalNoise(500.0)}, sizes=(2,))[0]
    assert strong["verdict"] == "not testable"


def test_more_noise_proves_less_on_the_same_trials(pool: GradientPool) -> None:
    noises: dict[float | None, TrainingNoise] = {None: NoNoise(1.0)} | {s: GaussianNoise(s) for s in (0.2, 1.0, 5.0)}
    estimates = rows(pool, noises, sizes=(2,))
    hits = [int(estimate["successes"]) for estimate in estimates]  # type: ignore[call-overload]
    assert hits[0] == 6000
    assert hits == sorted(hits, reverse=True)
    again = rows(pool, noises, sizes=(2,))
    assert estimates == again
    assert list(estimates[0]) == list(CANDIDATES)


def test_sizes_beyond_the_pool_are_left_out(pool: GradientPool) -> None:
    estimates = rows(pool, {1.0: GaussianNoise(1.0)}, sizes=(2, 30, 31), trials=50)
    assert [estimate["candidates"] for estimate in estimates] == [2, 30]


def test_between_no_direction_and_one_the_claim_is_the_largest_loss_of_the_uniform_law() -> None:
    """In R^3 ln of the density of a draw over the uniform one is 5 cosine - ln(sinh 5 / 5), 7.7 nats at the most."""
    gradients = np.eye(3)[:2] * [[0.0], [1.0]]
    attack = Candidates(sizes=(2,), trials=500)
    noises: dict[float | None, TrainingNoise] = {5.0: DirectionalNoise(5.0)}
    pools = [GradientPool.of(gradients @ gradients.T, 3)]
    (estimate,) = table(OF, attack, pools, noises, np.array([1, 2]), seed=(0, 0), alpha=0.01).to_dicts()
    assert estimate["expected"] == pytest.approx(500 * expit(5 + np.log(np.sinh(5) / 5)), rel=1e-9)
