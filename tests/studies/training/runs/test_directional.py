"""Directional draws. Each random test has a fixed seed and a threshold with a stated probability of a false alarm."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp, kstest, uniform, vonmises_fisher

from epsilometer.core import system
from epsilometer.core.randomness import Noise
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.studies.training.runs.directional import average, average_of_draws, cosines
from epsilometer.studies.training.runs.factored import Factor, FactoredGradients
from epsilometer.studies.training.runs.gradients import DenseGradients
from tests.support.broken import float32_cosines
from tests.support.refusals import refused
from tests.support.sparing import first

RARE = 1e-5  # probability of a false alarm per comparison; this file has about 130
DEVIATIONS = 4.5  # a normal number exceeds that with probability 7e-6
BERT, GPT2 = 592_130, 3_072
Cosines = Callable[[float, int, int, np.random.Generator], NDArray[np.floating]]


def stream(*name: str | int | float) -> np.random.Generator:
    return Noise.named(1, "test", *name).generator(0)


def density(dimension: int, kappa: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines and the law's CDF at them, by the trapezium rule over the angle: e^(kappa cos) sin^(d-2)."""
    angles = np.linspace(0, math.pi, 200_001)[1:-1]
    logs = kappa * (np.cos(angles) - 1) + (dimension - 2) * np.log(np.sin(angles))
    upper = np.cumsum(np.exp(logs - logs.max()))
    return np.cos(angles)[::-1], 1 - (upper / upper[-1])[::-1]


@pytest.mark.parametrize(
    ("dimension", "kappa"),
    [(2, 1e-3), (2, 3), (2, 300), (3, 1), (4, 50), (10, 0.5), (60, 1e3), (GPT2, 1e3), (GPT2, 1e6), (BERT, 1e5)],
)
def test_cosines_have_the_law_of_a_quadrature(dimension: int, kappa: float) -> None:
    points, cumulative = density(dimension, kappa)
    sample = cosines(kappa, dimension, 20_000, stream(dimension, kappa))
    assert kstest(sample, lambda w: np.interp(w, points, cumulative)).pvalue > RARE


@pytest.mark.parametrize("kappa", [1e-3, 2.0, 1e4, 1e9])
def test_cosines_in_three_dimensions_have_their_closed_law(kappa: float) -> None:
    """1 - W is exponential of rate kappa, up to 2."""
    sample = 1 - cosines(kappa, 3, 20_000, stream("three", kappa))
    assert kstest(sample, lambda v: np.expm1(-kappa * v) / np.expm1(-2 * kappa)).pvalue > RARE


def moments(dimension: int, kappa: float) -> tuple[float, float]:
    """Mean and deviation of W: Gauss-Legendre over 14 deviations of the angle either way, its terms in 40 digits.

    The mean is that of the continued fraction. 1 - A^2 - (d-1) A / kappa would be the variance, and cancels in float64.
    """
    nodes, weights = np.polynomial.legendre.leggauss(160)
    with mpmath.workdps(40):
        k, power = mpmath.mpf(kappa), dimension - 2
        mode = mpmath.acos(2 * k / (power + mpmath.sqrt(power**2 + 4 * k**2)))
        width = 14 / mpmath.sqrt(k * mpmath.cos(mode) + power / mpmath.sin(mode) ** 2)
        low, high = max(mode - width, mpmath.mpf(0)), min(mode + width, mpmath.pi)
        angles = [low + (high - low) * (1 + mpmath.mpf(node)) / 2 for node in nodes]
        peak = k * mpmath.cos(mode) + power * mpmath.log(mpmath.sin(mode))
        cosine = [mpmath.cos(angle) for angle in angles]
        masses = [
            weight * mpmath.exp(k * c + power * mpmath.log(mpmath.sin(angle)) - peak)
            for weight, c, angle in zip(weights, cosine, angles, strict=True)
        ]
        mean = mpmath.fdot(masses, cosine) / mpmath.fsum(masses)
        variance = mpmath.fdot(masses, [(c - mean) ** 2 for c in cosine]) / mpmath.fsum(masses)
        return float(mean), float(mpmath.sqrt(variance))


def departures(law: Cosines, dimension: int, kappa: float, count: int) -> tuple[float, float]:
    """Mean and deviation of a sampler, in standard errors from the truth; infinite where too few were accepted."""
    sample = law(kappa, dimension, count, stream("moments", dimension, kappa)).astype(np.float64)
    if len(sample) < count:
        return math.inf, math.inf
    mean, deviation = moments(dimension, kappa)
    centred = sample - mean
    squares = centred**2
    mean_off = abs(centred.mean()) / (deviation / math.sqrt(count))
    return mean_off, abs(squares.mean() - deviation**2) / (squares.std() / math.sqrt(count))


@pytest.mark.parametrize("kappa", [10.0, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9])
@pytest.mark.parametrize("dimension", [GPT2, BERT])
def test_mean_and_deviation_of_cosines_are_right_for_real_models(dimension: int, kappa: float) -> None:
    assert moments(dimension, kappa)[0] == pytest.approx(mean_cosine(kappa, dimension), rel=1e-14)
    assert max(departures(cosines, dimension, kappa, 100_000)) < DEVIATIONS


@pytest.mark.parametrize("kappa", [1e-3, 1.0, 1e9])
@pytest.mark.parametrize("dimension", [2, 100_000_000])
def test_cosines_are_right_at_the_ends(dimension: int, kappa: float) -> None:
    """At kappa 1e9 on the circle W is 1 - z^2 / 2 kappa, z normal: its deviation is 1 / (sqrt(2) kappa)."""
    sample = 1 - cosines(kappa, dimension, 50_000, stream("ends", dimension, kappa))
    mean = mean_cosine(kappa, dimension)
    assert abs(sample.mean() - (1 - mean)) < DEVIATIONS * sample.std() / math.sqrt(len(sample))
    if kappa == 1e9 and dimension == 2:
        assert sample.std() == pytest.approx(math.sqrt(0.5) / kappa, rel=0.05)


@pytest.mark.parametrize(("dimension", "kappa"), [(GPT2, 1e7), (BERT, 1e7)])
def test_float32_cosines_are_caught(dimension: int, kappa: float) -> None:
    """They pass where kappa is small beside d, so that a test there would show nothing."""
    assert max(departures(float32_cosines.cosines, dimension, kappa, 300_000)) > DEVIATIONS
    assert max(departures(float32_cosines.cosines, BERT, 1e4, 20_000)) < DEVIATIONS


def draw(mean: NDArray[np.floating], kappa: float, generator: np.random.Generator) -> NDArray[np.float64]:
    """A single draw [d] about the direction of a vector [d]."""
    return average_of_draws(DenseGradients(mean[None]), kappa, generator)


@pytest.mark.parametrize("mean", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (2, -3, 1)])
def test_draws_turn_with_their_mean(mean: tuple[float, ...]) -> None:
    """Along the mean a draw has the law of W, around it any angle is as likely; poles are no case apart."""
    generator, kappa = stream("turn", *mean), 3.0
    sample = np.array([draw(np.array(mean, np.float32), kappa, generator) for _ in range(2_000)])
    unit = np.array(mean) / np.linalg.norm(mean)
    axes = np.linalg.svd(unit[None])[2][1:]
    assert np.allclose(np.linalg.norm(sample, axis=1), 1, atol=1e-14)
    assert kstest(1 - sample @ unit, lambda v: np.expm1(-kappa * v) / np.expm1(-2 * kappa)).pvalue > RARE
    assert kstest(np.arctan2(*(axes @ sample.T)), uniform(-math.pi, 2 * math.pi).cdf).pvalue > RARE


def test_draws_have_the_density_whose_ratio_is_claimed() -> None:
    """Under f_u, f_v / f_u has the mean 1; with ln f_u / f_v = kappa (u - v)'y, its supremum is kappa |u - v|."""
    generator, kappa, dimension = stream("density"), 0.8, 5
    u, v = np.linalg.qr(generator.standard_normal((dimension, 2)))[0].T
    laws = [vonmises_fisher(mean, kappa) for mean in (u, v)]
    sample = np.array([draw(u, kappa, generator) for _ in range(2_500)])
    loss = laws[0].logpdf(sample) - laws[1].logpdf(sample)
    assert np.allclose(loss, kappa * sample @ (u - v), atol=1e-12)
    ratio = np.exp(-loss)
    assert abs(ratio.mean() - 1) < DEVIATIONS * ratio.std() / math.sqrt(len(ratio))
    worst = (u - v) / np.linalg.norm(u - v)
    assert loss.max() < kappa * np.linalg.norm(u - v)
    assert (laws[0].logpdf(worst) - laws[1].logpdf(worst)) == pytest.approx(kappa * np.linalg.norm(u - v))


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_a_mean_without_a_direction_has_a_uniform_draw(bad: float) -> None:
    generator = stream("uniform")
    sample = np.array([draw(np.array([bad, 0, 0]), 50.0, generator) for _ in range(2_500)])
    assert kstest(sample[:, 0], uniform(-1, 2).cdf).pvalue > RARE  # Archimedes


def test_a_draw_is_refused_without_noise_or_direction() -> None:
    for kappa in (0.0, -1.0, math.inf, math.nan):
        with refused("EPS-C069"):
            draw(np.ones(3), kappa, stream("refused"))
    with refused("EPS-C070"):
        draw(np.ones(1), 1.0, stream("refused"))


def separate(means: NDArray[np.float64], kappa: float, count: int, generator: np.random.Generator) -> NDArray:
    """Averages [count, d] of draws about the rows of means, every draw by itself: all counts at once."""
    total = np.zeros((count, means.shape[1]))
    for mean, length in zip(means, np.linalg.norm(means, axis=1), strict=True):
        noise = generator.standard_normal(total.shape)
        if not length:
            total += noise / np.linalg.norm(noise, axis=1, keepdims=True)
            continue
        unit, cosine = mean / length, cosines(kappa, len(mean), count, generator)
        noise -= np.outer(noise @ unit, unit)
        noise *= (np.sqrt(1 - cosine**2) / np.linalg.norm(noise, axis=1))[:, None]
        total += np.outer(cosine, unit) + noise
    return total / len(means)


def compared(sample: NDArray, means: NDArray, probe: NDArray) -> dict[str, NDArray]:
    """Lengths, projections and what lies outside the means' span, one number an average."""
    span = np.linalg.svd(means, full_matrices=False)[2][: np.linalg.matrix_rank(means)]
    inside = sample @ span.T
    outside = np.linalg.norm(sample - inside @ span, axis=1)
    first = sample @ means[0]
    return {
        "length": np.linalg.norm(sample, axis=1),
        "inside": np.linalg.norm(inside, axis=1),
        "outside": outside,
        "first": first,
        "last": sample @ means[-1],
        "anywhere": sample @ probe,
        "outside, by what is inside": outside * first,
    }


def means_of(case: str) -> tuple[NDArray[np.float64], float]:
    means = np.random.default_rng(3).standard_normal((4, 12))
    if case == "many dimensions":
        return np.random.default_rng(4).standard_normal((6, 60)), 20.0
    if case == "as many dimensions as draws are left":
        return means[:3, :6], 2.0
    if case == "one":
        return means[:1, :5], 1.0
    if case == "equal and opposite":
        means[1], means[2] = means[0], -means[0]
    if case == "nearly equal":
        means[1] = means[0] + 1e-4 * means[2, ::-1]
        return means, 100.0
    if case == "zero":
        means[1] = 0
    if case == "all zero":
        means[:] = 0
    if case == "along one axis":
        means[:] = np.eye(12)[3]
        return means, 1e4
    return means, 6.0


CASES = ["few dimensions", "many dimensions", "as many dimensions as draws are left", "one", "equal and opposite"]


@pytest.mark.parametrize("case", first(4, [*CASES, "nearly equal", "zero", "all zero", "along one axis"]))
def test_the_average_at_once_has_the_law_of_separate_draws(case: str) -> None:
    means, kappa = means_of(case)
    gradients, generator = DenseGradients(means), stream("average", case)
    at_once = np.array([average(gradients, kappa, generator) for _ in range(1_000)])
    one_by_one = separate(means, kappa, 10_000, generator)
    probe = generator.standard_normal(means.shape[1])
    seen, truth = compared(at_once, means, probe), compared(one_by_one, means, probe)
    for name in seen:
        if seen[name].std() > 1e-6:  # otherwise it is a constant with rounding errors
            assert ks_2samp(seen[name], truth[name]).pvalue > RARE, name
        else:
            assert np.allclose(seen[name].mean(), truth[name].mean(), atol=1e-6), name


def test_draws_made_one_by_one_are_separate_draws() -> None:
    """The truth of the test above, and what the average falls back on, is another program for the same law."""
    means, kappa = means_of("zero")
    gradients, generator = DenseGradients(means), stream("separate")
    sample = np.array([average_of_draws(gradients, kappa, generator) for _ in range(1_000)])
    seen, truth = (compared(draws, means, means[2]) for draws in (sample, separate(means, kappa, 10_000, generator)))
    for name in seen:
        assert ks_2samp(seen[name], truth[name]).pvalue > RARE, name
    few = DenseGradients(means[:, :6])  # 6 - 3 < 4
    assert np.array_equal(average(few, kappa, stream("few")), average_of_draws(few, kappa, stream("few")))


def test_the_average_has_the_moments_of_its_draws_at_the_size_of_a_model() -> None:
    """592,130 dimensions: the mean is A times that of the means; the rest is as long as theory says, to 5 in 1,000."""
    count, kappa = 8, 1e5
    means = np.random.default_rng(5).standard_normal((count, BERT)).astype(np.float32)
    sample = average(DenseGradients(means), kappa, stream("size"))
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    cosine = mean_cosine(kappa, BERT)
    assert sample.dtype == np.float32
    rest = sample - cosine * units.mean(axis=0)
    assert np.linalg.norm(rest) == pytest.approx(math.sqrt((1 - cosine**2) / count), rel=0.005)
    assert np.abs(units @ rest).max() < DEVIATIONS * math.sqrt(cosine / kappa / count) + 0.005 * cosine


def test_the_sum_is_over_what_is_given_and_no_draw_is_no_sum() -> None:
    gradients = DenseGradients(means_of("few dimensions")[0])
    by_count = average(gradients, 5.0, stream("over"))
    assert np.allclose(average(gradients, 5.0, stream("over"), over=8), by_count / 2, rtol=1e-6)
    one_by_one = average_of_draws(gradients, 5.0, stream("over"))
    assert np.allclose(average_of_draws(gradients, 5.0, stream("over"), over=8), one_by_one / 2)
    empty = DenseGradients(np.empty((0, 12)))
    assert not average(empty, 5.0, stream("empty")).any()


def test_gradients_in_factors_have_the_draws_of_their_matrix() -> None:
    """Nothing but inner products and sums decides a draw: the same numbers come from both, to float32."""
    generator = np.random.default_rng(6)
    left, right, bias = (generator.standard_normal((5, n)).astype(np.float32) for n in (4, 9, 3))
    right[:, 0] += 3  # similar gradients
    factored = FactoredGradients([Factor(left, right), Factor(bias)])
    dense = DenseGradients(np.concatenate([np.einsum("li,lj->lij", left, right).reshape(5, -1), bias], axis=1))
    for kappa in (1.0, 1e3):
        sample = [average(rows, kappa, stream("factors", kappa)) for rows in (factored, dense)]
        assert np.allclose(*sample, atol=1e-6)


class Noted(DenseGradients):
    """Gradients that note the largest weight of their sums."""

    largest = 0.0

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        Noted.largest = max(Noted.largest, float(np.abs(weights).max()))
        return super().weighted_sum(weights)


def test_nearly_equal_means_do_not_blow_up_the_sum() -> None:
    """Without n's own projection in it, the in-span part has weights of some sqrt(L / d) / distance: 3,400 here, not 6.

    The sums of real gradients are float32, so that such weights would leave an error in the draw.
    """
    means = np.random.default_rng(7).standard_normal((4, 50_000))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    means[1] = means[0] + 1e-5 * means[3]
    for number in range(10):
        average(Noted(means[:3]), 10.0, stream("near", number), over=1)
    assert 0 < Noted.largest < 40


def test_lengths_of_gradients_do_not_count() -> None:
    means = means_of("few dimensions")[0]
    lengths = 2.0 ** np.array([-100, 0, 100, 3])[:, None]
    scaled = average(DenseGradients(means * lengths), 5.0, stream("lengths"))
    assert np.allclose(scaled, average(DenseGradients(means), 5.0, stream("lengths")), atol=1e-6)


def test_a_release_draws_in_float64_from_the_operating_system() -> None:
    gradients = DenseGradients(means_of("few dimensions")[0])
    first, second = (average(gradients, 5.0, system.generator()) for _ in range(2))
    assert first.dtype == np.float64
    assert not np.array_equal(first, second)
