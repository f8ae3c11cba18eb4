"""Identification among k texts: the optimal adversary's success agrees with its law, and with noise on all numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.core.von_mises_fisher import log_moment
from epsilometer.studies.training.attacks.reconstruction.candidates import BLOCK, Candidates, GradientPool
from epsilometer.studies.training.results.reconstruction_bounds import exact_match, pair_success
from epsilometer.studies.training.runs.directional import cosines
from epsilometer.studies.training.runs.gradients import DenseGradients
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise, TrainingNoise
from epsilometer.studies.training.runs.sent import OnMean
from tests.support.refusals import refused

SIZE, TEXTS = 60, 24


@pytest.fixture(scope="module")
def gradients() -> NDArray[np.float64]:
    """Near one another, as those of texts with one label; some shorter than 1, two alike, one zero."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal(SIZE) + 0.8 * generator.standard_normal((TEXTS, SIZE))
    rows *= generator.uniform(0.5, 3, TEXTS)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[1], rows[2] = rows[0], 0
    return rows


def pool(rows: NDArray[np.float64]) -> GradientPool:
    return GradientPool.of(rows @ rows.T, rows.shape[1])


def trials(k: int, count: int, texts: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    generator = np.random.default_rng(1)
    sets = np.argsort(generator.random((count, len(texts))), axis=1)[:, :k]
    return np.asarray(texts)[sets], generator.integers(k, size=count)


def hits(rows: NDArray[np.float64], k: int, noise: TrainingNoise, count: int) -> tuple[int, NDArray[np.int64]]:
    sets, target = trials(k, count, [0, *range(3, TEXTS)])
    (scores,) = Candidates().log_likelihoods([pool(rows)], sets, target, [noise], np.random.default_rng(2))
    return int((scores.argmax(1) == target).sum()), sets


def scaled(rows: NDArray[np.float64], noise: TrainingNoise) -> NDArray[np.float64]:
    """The gradients as they are when noise is added, by the noise's own code."""
    clean = {GaussianNoise: NoNoise(1.0), ScaledNoise: ScaledNoise(0.0), DirectionalNoise: ScaledNoise(0.0)}
    quiet = clean[type(noise)]
    return np.stack([quiet.update(DenseGradients(row[None]), 1, np.random.default_rng(0)) for row in rows])


@pytest.mark.parametrize("noise", [GaussianNoise(0.3), ScaledNoise(0.5), DirectionalNoise(40.0), DirectionalNoise(4.0)])
def test_two_candidates_against_their_known_law(gradients: NDArray[np.float64], noise: TrainingNoise) -> None:
    """The mean over the trials' pairs of Phi(distance / 2 sigma), or of the integral: within a 1 - 1e-6 interval."""
    count = 40_000
    right, sets = hits(gradients, 2, noise, count)
    seen = scaled(gradients, noise)
    distances = np.linalg.norm(seen[sets[:, 0]] - seen[sets[:, 1]], axis=1)
    release = noise.release([SIZE])
    assert release is not None
    low, high = clopper_pearson(right, count, 1e-6)
    assert low < pair_success(release, distances).mean() < high


@pytest.mark.parametrize(
    ("noise", "k"),
    [
        (GaussianNoise(0.6), 5),
        (GaussianNoise(0.6), 20),
        (DirectionalNoise(15.0), 5),
        (DirectionalNoise(15.0), 20),
        (DirectionalNoise(10.0, parts=True), 20),
    ],
)
def test_as_if_all_numbers_had_been_noised(
    gradients: NDArray[np.float64], noise: TrainingNoise, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise's own updates, one a trial, judged by the densities of all d numbers: the same rate of success.

    1,000 trials so, 20,000 by products: the rates differ by at most 5 standard errors, but by chance in 6e-7 of the
    cases. 20 candidates take the way of many (a factor of the whole pool).
    """
    monkeypatch.setattr("epsilometer.studies.training.attacks.reconstruction.candidates._FEW", 10)
    slow, fast, lengths = 1000, 20_000, (20, SIZE - 20)
    parts = [slice(0, 20), slice(20, SIZE)] if getattr(noise, "parts", False) else [slice(0, SIZE)]
    sets, target = trials(k, fast, range(3, TEXTS))
    seen, generator, right = scaled(gradients, noise), np.random.default_rng(5), 0
    for row, slot in zip(sets[:slow], target[:slow], strict=True):
        y = noise.update(DenseGradients(gradients[row[slot]][None], lengths), 1, generator).astype(np.float64)
        if isinstance(noise, GaussianNoise):
            score = -((y - seen[row]) ** 2).sum(1)
        else:
            score = sum(gradients[row, p] @ y[p] / np.linalg.norm(gradients[row, p], axis=1) for p in parts)
        right += int(np.argmax(score) == slot)
    pools = [pool(gradients[:, part]) for part in parts]
    (scores,) = Candidates().log_likelihoods(pools, sets, target, [noise], np.random.default_rng(6))
    rate = float((scores.argmax(1) == target).mean())
    assert 0.2 < rate < 0.98
    assert abs(right / slow - rate) < 5 * np.sqrt(rate * (1 - rate) * (1 / slow + 1 / fast))


def test_no_success_beyond_the_bound(gradients: NDArray[np.float64]) -> None:
    """Upper ends of 1 - 1e-6 intervals are above the bound only by their width; the success is not below guessing."""
    for noise in (GaussianNoise(0.6), DirectionalNoise(12.0)):
        release = noise.release([SIZE])
        for k in (2, 21):
            right, _ = hits(gradients, k, noise, 8_000)
            low, high = clopper_pearson(right, 8_000, 1e-6)
            assert low < exact_match(release, 1 / k)
            assert high > 1 / k


@pytest.mark.parametrize("noise", [GaussianNoise(0.4), ScaledNoise(0.5, 0.01), DirectionalNoise(9.0)])
def test_candidates_that_are_all_texts_in_order(gradients: NDArray[np.float64], noise: TrainingNoise) -> None:
    """One row that stands for all trials, which takes shortcuts, has the scores of that row written out."""
    large = np.random.default_rng(0).standard_normal((40, SIZE)) + gradients[3]
    row, target = np.arange(40), np.random.default_rng(1).integers(40, size=50)
    first, other = (
        next(Candidates().log_likelihoods([pool(large)], sets, target, [noise], np.random.default_rng(2)))
        for sets in (np.broadcast_to(row, (50, 40)), np.tile(row, (50, 1)))
    )
    np.testing.assert_array_equal(first, other)


def test_equal_gradients_are_guessed_and_none_is_missed_without_noise(gradients: NDArray[np.float64]) -> None:
    sets = np.array([[0, 1], [0, 5]])
    for noise in (GaussianNoise(0.1), NoNoise(1.0), DirectionalNoise(100.0)):
        (scores,) = Candidates().log_likelihoods(
            [pool(gradients)], sets, np.array([0, 1]), [noise], np.random.default_rng(0)
        )
        assert scores[0, 0] == pytest.approx(scores[0, 1], abs=2e-3)  # tolerance for the ridge in `_projections`
    (clean,) = Candidates().log_likelihoods(
        [pool(gradients)], sets, np.array([0, 1]), [NoNoise()], np.random.default_rng(0)
    )
    np.testing.assert_array_equal(clean[1], [-np.inf, 0])


def test_a_gradient_of_zero_is_drawn_uniformly(gradients: NDArray[np.float64]) -> None:
    """Between it and another text the best adversary knows both densities: P(kappa u'y > ln M) on either side.

    40,000 trials, a 1 - 1e-6 interval about the share of half the two densities' larger one, by direct draws.
    """
    kappa, count = 20.0, 40_000
    noise = DirectionalNoise(kappa)
    sets, target = np.tile([2, 7], (count, 1)), np.arange(count) % 2
    (scores,) = Candidates().log_likelihoods([pool(gradients)], sets, target, [noise], np.random.default_rng(3))
    right = (scores.argmax(1) == target).sum()
    generator, u = np.random.default_rng(4), gradients[7] / np.linalg.norm(gradients[7])
    uniform = generator.standard_normal((count, SIZE))
    against = kappa * (uniform @ u) / np.linalg.norm(uniform, axis=1) < log_moment(kappa, SIZE)
    about = kappa * cosines(kappa, SIZE, count, generator) >= log_moment(kappa, SIZE)
    truth = (against.mean() + about.mean()) / 2
    assert abs(right / count - truth) < 6 * np.sqrt(2 * truth * (1 - truth) / count)


def test_the_same_bytes_and_common_noise(gradients: NDArray[np.float64]) -> None:
    """Those of one noise do not depend on which others are asked about."""
    sets, target = trials(4, 50, range(TEXTS))

    def scored(*noises: TrainingNoise) -> list[NDArray[np.float64]]:
        return [*Candidates().log_likelihoods([pool(gradients)], sets, target, noises, np.random.default_rng(8))]

    for noise in (GaussianNoise(0.4), DirectionalNoise(9.0)):
        alone, among = scored(noise)[0], scored(DirectionalNoise(3.0), noise, GaussianNoise(1.0))[1]
        assert alone.tobytes() == scored(noise)[0].tobytes() == among.tobytes()
    assert BLOCK == 2048  # drawn numbers depend on it


def test_bad_input_is_refused(gradients: NDArray[np.float64]) -> None:
    sets, target = trials(2, 5, range(TEXTS))
    with refused("EPS-A020", "candidates"):
        next(
            Candidates().log_likelihoods(
                [pool(gradients)], sets, target, [OnMean(0.1, "laplace")], np.random.default_rng(0)
            )
        )
    with refused("EPS-A019"):
        pool(np.full((2, 3), np.nan))
