"""Training noise. Statistical tests have fixed seeds; those that chance could fail state its probability."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest, norm

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.core import system
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.runs.directional import average
from epsilometer.studies.training.runs.gradients import DenseGradients
from epsilometer.studies.training.runs.noise import DirectionalNoise, GaussianNoise, NoNoise, ScaledNoise, TrainingNoise
from tests.support.broken import private_steps as broken
from tests.support.broken import training_noise
from tests.support.private_steps import broken_rules
from tests.support.refusals import refused

EVERY: list[TrainingNoise] = [
    GaussianNoise(0.7),
    DirectionalNoise(50.0),
    DirectionalNoise(50.0, parts=True),
    ScaledNoise(0.7),
    ScaledNoise(0.7, gamma=0.01),
    NoNoise(),
    NoNoise(clip=1.0),
]
BATCH = Fraction(1264, 10)


def stream(name: str) -> np.random.Generator:
    return Noise.named(1, "noise", name).generator(0)


def some(count: int = 6, size: int = 400) -> DenseGradients:
    lengths = np.linspace(0.1, 3, count)[:, None]
    rows = np.random.default_rng(2).standard_normal((count, size))
    rows *= lengths / np.linalg.norm(rows, axis=1, keepdims=True)
    return DenseGradients(rows.astype(np.float32), (size - 100, 90, 10))


@pytest.mark.parametrize("noise", [GaussianNoise(0.5), GaussianNoise(2.0, clip=0.3), GaussianNoise(0.8, clip=20.0)])
def test_a_gaussian_step_keeps_its_rules(noise: GaussianNoise) -> None:
    assert broken_rules(noise) == set()


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (training_noise.BatchClipped, "sensitivity"),
        (training_noise.NotClipped, "sensitivity"),
        (training_noise.SumNoiseOnMean, "deviation"),
        (training_noise.MeanNoiseOnSum, "deviation"),
        (training_noise.OneNoise, "fresh noise"),
        (broken.ActualBatch, "sensitivity"),
        (broken.ClippedByLayer, "sensitivity"),
        (broken.EmptySkipped, "empty batch"),
        (broken.NanPassed, "finite"),
    ],
    ids=lambda case: getattr(case, "__name__", case),
)
def test_steps_broken_on_purpose_are_caught(step: type[GaussianNoise], rule: str) -> None:
    assert rule in broken_rules(step(0.5))


@pytest.mark.parametrize(
    ("noise", "weights", "deviation"),
    [
        (GaussianNoise(0.7), lambda n: np.minimum(1, 1 / n), 0.7),
        (GaussianNoise(0.7, clip=2.0), lambda n: np.minimum(1, 2 / n), 1.4),
        (ScaledNoise(0.7), lambda n: 1 / n, 0.7),
        (ScaledNoise(0.7, gamma=0.01), lambda n: 1 / (n + 0.01), 0.7),
    ],
)
def test_updates_are_the_weighted_sum_and_normal_noise_over_the_expected_batch(noise, weights, deviation) -> None:
    gradients = some(size=20_000)
    total = weights(gradients.norms()) @ gradients.matrix.astype(np.float64)
    left = noise.update(gradients, BATCH, stream("law")) * float(BATCH) - total
    assert kstest(left, norm(scale=deviation).cdf).pvalue > 1e-5
    assert abs(left @ total) < 4.5 * deviation * np.linalg.norm(total)  # 7e-6


def test_scaling_without_noise_and_controls_are_plain_sums() -> None:
    gradients, generator = some(), stream("plain")
    lengths, rows = gradients.norms(), gradients.matrix.astype(np.float64)
    for noise, weights in (
        (ScaledNoise(0.0), 1 / lengths),
        (ScaledNoise(0.0, gamma=0.5), 1 / (lengths + 0.5)),
        (NoNoise(), np.ones(6)),
        (NoNoise(clip=0.4), np.minimum(1, 0.4 / lengths)),
    ):
        assert np.allclose(noise.update(gradients, BATCH, generator), weights @ rows / float(BATCH), atol=1e-6)
        assert noise.release(gradients.parts) is None


def test_directional_updates_are_draws_of_the_whole_or_of_each_tensor() -> None:
    gradients, over = some(), float(BATCH)
    whole = DirectionalNoise(50.0).update(gradients, BATCH, stream("whole"))
    assert np.allclose(whole, average(gradients, 50.0, stream("whole"), over))
    generator = stream("parts")
    every = [average(gradients.part(i), 50.0, generator, over) for i in range(3)]
    by_parts = DirectionalNoise(50.0, parts=True).update(gradients, BATCH, stream("parts"))
    assert np.allclose(by_parts, np.concatenate(every))


@pytest.mark.parametrize("noise", EVERY, ids=repr)
def test_any_batch_gives_a_step_of_the_model_s_size(noise: TrainingNoise) -> None:
    """An empty one too, and one whose gradients are zero or not finite; the same bytes from the same stream."""
    rows = some().matrix.copy()
    rows[1], rows[2, 3], rows[4, 399] = 0, np.nan, np.inf
    for matrix in (rows, rows[:1], rows[:0]):
        gradients = DenseGradients(matrix, (300, 90, 10))
        first, again = (noise.update(gradients, BATCH, stream("any")) for _ in range(2))
        assert first.dtype == np.float32
        assert first.shape == (400,)
        assert np.isfinite(first).all()
        assert first.tobytes() == again.tobytes()


def test_an_empty_batch_has_noise_where_examples_come_and_go() -> None:
    empty = DenseGradients(np.empty((0, 400), np.float32))
    for noise in (GaussianNoise(0.7), ScaledNoise(0.7)):
        assert noise.update(empty, BATCH, stream("empty")).std() == pytest.approx(0.7 / float(BATCH), rel=0.2)
    assert not DirectionalNoise(5.0).update(empty, BATCH, stream("empty")).any()  # here batches have a public size


@pytest.mark.parametrize("noise", [GaussianNoise(0.7), ScaledNoise(0.7), DirectionalNoise(50.0)], ids=repr)
def test_a_release_is_from_the_operating_system_and_on_a_public_grid(noise: TrainingNoise) -> None:
    gradients = some(1)
    first, second = (noise.update(gradients, BATCH, system.generator()) for _ in range(2))
    assert not np.array_equal(first, second)
    grid = np.abs(first[first != 0]).min()
    steps = np.concatenate([first, second]) / grid
    assert math.log2(grid).is_integer()
    assert np.array_equal(steps, np.rint(steps))
    if not isinstance(noise, DirectionalNoise):
        assert 1 / 16 <= grid * float(BATCH) / 0.7 <= 1 / 8
        left = first - noise.update(gradients, BATCH, stream("seeded"))
        assert left.std() == pytest.approx(math.sqrt(2) * 0.7 / float(BATCH), rel=0.2)


def test_accountants_are_told_what_was_released() -> None:
    parts = (300, 90, 10)
    assert GaussianNoise(0.7, clip=3.0).release(parts) == Gaussian(0.7)
    assert ScaledNoise(0.7, gamma=0.1).release(parts) == Gaussian(0.7)
    assert DirectionalNoise(9.0).release(parts) == VonMisesFisher(9.0, (400,))
    assert DirectionalNoise(9.0, parts=True).release(parts) == VonMisesFisher(9.0, parts)


@pytest.mark.parametrize(
    ("build", "refusal"),
    [
        (lambda: GaussianNoise(0.0), ("EPS-T021", "0.0")),
        (lambda: GaussianNoise(1.0, clip=-1.0), ("EPS-T021", "-1.0")),
        (lambda: GaussianNoise(math.nan), ("EPS-T021", "nan")),
        (lambda: DirectionalNoise(0.0), ("EPS-T021", "0.0")),
        (lambda: DirectionalNoise(math.inf), ("EPS-T021", "inf")),
        (lambda: ScaledNoise(-1.0), ("EPS-T020", "-1.0")),
        (lambda: ScaledNoise(1.0, gamma=-0.1), ("EPS-T020", "-0.1")),
        (lambda: NoNoise(clip=0.0), ("EPS-T021", "0.0")),
    ],
)
def test_noise_that_is_none_is_refused(build, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        build()
