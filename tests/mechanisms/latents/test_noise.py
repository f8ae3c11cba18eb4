"""Noise on vectors: its calibration agrees with exact and published numbers, and its draws with its law."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import stats

from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.shared.noise import (
    Gaussian,
    Laplace,
    add,
    classical_gaussian_scale,
    gaussian_log_delta,
    gaussian_log_deltas,
    gaussian_scale,
    laplace,
)
from tests.support.gaussian import gaussian_epsilon
from tests.support.refusals import refused

DELTA = 1e-5
# A test of a distribution fails by chance once in 10^9 seeds; seeds are fixed.
ALPHA = 1e-9


def exact_delta(epsilon: float, scale: float) -> mpmath.mpf:
    """The naive twin: Balle and Wang 2018, theorem 8, as it stands, in numbers that know no overflow."""
    with mpmath.workdps(60):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(scale)

        def phi(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return phi(1 / (2 * s) - e * s) - mpmath.exp(e) * phi(-1 / (2 * s) - e * s)


@pytest.mark.parametrize("epsilon", [0.01, 1, 30, 250, 1000, 5000])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
def test_the_used_sigma_keeps_its_delta_exactly_and_wastes_nothing(epsilon: float, delta: float) -> None:
    scale = gaussian_scale(epsilon, delta)
    assert exact_delta(epsilon, scale) <= delta
    assert exact_delta(epsilon, scale * (1 - 1e-6)) > delta
    assert math.exp(gaussian_log_delta(epsilon, scale)) == pytest.approx(float(exact_delta(epsilon, scale)), rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "scale"),
    [
        (0.5, 7.03), (1, 3.73), (10, 0.500), (50, 0.150), (100, 0.0947), (250, 0.0539), (500, 0.0361), (750, 0.0288),
        (1000, 0.0246),
    ],
)  # fmt: skip
def test_sigma_at_the_papers_epsilons(epsilon: float, scale: float) -> None:
    assert gaussian_scale(epsilon, DELTA) == pytest.approx(scale, rel=3e-3)


@pytest.mark.parametrize(
    ("nominal", "delivered"),
    [(10, 10.4), (50, 96), (100, 300), (250, 1550), (500, 5765), (750, 12642), (1000, 22181)],
)
def test_what_the_classical_formula_delivers(nominal: float, delivered: float) -> None:
    """DP-BART's scripts use it up to epsilon 2,500: the claim is false from 10 on, and far from it at 250."""
    scale = classical_gaussian_scale(nominal, DELTA, as_published=True)
    assert gaussian_epsilon(scale, DELTA) == pytest.approx(delivered, rel=5e-3)
    assert math.exp(gaussian_log_delta(nominal, scale)) > DELTA


def test_the_classical_formula_is_true_below_one_and_refused_above() -> None:
    for epsilon in (0.1, 0.5, 1.0):
        assert classical_gaussian_scale(epsilon, DELTA) >= gaussian_scale(epsilon, DELTA)
    with refused("EPS-M044", "1", "250"):
        classical_gaussian_scale(250, DELTA)


def test_epsilon_inverts_sigma() -> None:
    for epsilon in (0.3, 7.0, 800.0):
        assert gaussian_epsilon(gaussian_scale(epsilon, DELTA), DELTA) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian_epsilon(1e9, DELTA) == 0.0


def test_laplace_loses_epsilon_over_its_sensitivity() -> None:
    """Exact: at the worst output the log-ratio of the densities is the L1 distance over the scale."""
    law = laplace(3.0, sensitivity=2.0)
    x, other = np.array([0.5, 0.5]), np.array([-0.5, -0.5])
    assert law.log_density(x - x) - law.log_density(x - other) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("law", "frozen"), [(Gaussian(0.7), stats.norm(0, 0.7)), (Laplace(0.7), stats.laplace(0, 0.7))]
)
def test_quantiles_densities_and_draws_are_of_one_law(law: Gaussian | Laplace, frozen: stats.rv_frozen) -> None:
    """Kolmogorov-Smirnov at 1e-9 on 40,000 numbers; the rounding moves them by 1/512 of a scale at most."""
    uniforms = np.array([2.0**-54, 1e-9, 0.3, 0.5, 0.8, 1 - 2.0**-53])
    np.testing.assert_allclose(law.quantiles(uniforms), frozen.ppf(uniforms), rtol=1e-9)
    vectors = np.array([[0.1, -2.0, 3.0], [0.0, 0.5, -0.5]])
    np.testing.assert_allclose(law.log_density(vectors), frozen.logpdf(vectors).sum(axis=1))
    noise = add(np.zeros((400, 100), np.float32), law, Noise.named(400, "ks")).ravel()
    assert stats.kstest(noise, frozen.cdf).pvalue > ALPHA
    assert np.std(noise) == pytest.approx(law.deviation, rel=0.05)  # 10 standard errors


def test_coordinates_and_trials_have_noise_of_their_own() -> None:
    """Of 10,000 correlations of 400 numbers none is above 0.4, which is 8 standard deviations."""
    noise = add(np.zeros((400, 100), np.float32), Gaussian(1.0), Noise.named(400, "own")).astype(float)
    correlation = np.corrcoef(noise.T) - np.eye(100)
    assert np.abs(correlation).max() < 0.4
    assert np.abs((noise[1:] * noise[:-1]).mean(axis=1)).max() < 0.8  # neighbouring trials, 100 numbers each


def test_a_trials_noise_is_its_own_whatever_the_batch() -> None:
    before = np.random.default_rng(0).normal(size=(300, 2000)).astype(np.float32)  # more than one slice
    noise = Noise.named(300, "batch")
    whole = add(before, Gaussian(0.5), noise)
    some = np.array([299, 3, 150])
    np.testing.assert_array_equal(add(before[some], Gaussian(0.5), noise[some]), whole[some])
    assert (add(before, Gaussian(0.5), Noise.named(300, "other")) != whole).mean() > 0.9


@pytest.mark.parametrize("scale", [1e-4, 0.3, 77.0])
def test_sums_lie_on_a_grid_that_is_the_same_for_every_input(scale: float) -> None:
    """Else the low bits of the sum would tell inputs apart (Mironov 2012)."""
    grid = 2.0 ** (math.floor(math.log2(scale)) - 8)
    before = np.random.default_rng(1).uniform(-1, 1, (50, 40)).astype(np.float32)
    after = add(before, Gaussian(scale), Noise.named(50, "grid")).astype(np.float64)
    # float32 holds the grid exactly while a sum is below 2^24 of its steps
    assert np.array_equal(after / grid, np.rint(after / grid))
    assert np.abs(after).max() < 2**24 * grid


def test_a_release_draws_from_the_operating_system() -> None:
    before = np.zeros((50, 1000), np.float32)
    first, second = (add(before, Gaussian(1.0), Noise.operating_system(50)) for _ in range(2))
    assert (first != second).mean() > 0.9
    assert np.std(first) == pytest.approx(1, abs=0.03)  # 9 standard errors of 50,000 numbers


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (-1, DELTA), (math.inf, DELTA), (math.nan, DELTA)])
def test_an_epsilon_that_is_none(epsilon: float, delta: float) -> None:
    for scale in (gaussian_scale, classical_gaussian_scale):
        with refused("EPS-M045", "0"):
            scale(epsilon, delta)
    with refused("EPS-M045"):
        laplace(epsilon, 1.0)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_that_is_none(delta: float) -> None:
    with refused("EPS-M046", "0", "1"):
        gaussian_scale(1.0, delta)


def test_the_printed_signal_over_noise_of_dp_bart_is_that_of_the_classical_formula() -> None:
    """TeDA, figure 10, of clipped states of one norm: .41, 1.60, 4.07 at 250, 1,000, 2,500; fitted at 1,000."""

    def fitted(scale: Callable[[float], float]) -> list[float]:
        return [round(1.60 * scale(1000) / scale(epsilon), 2) for epsilon in (250, 2500)]

    assert fitted(lambda epsilon: classical_gaussian_scale(epsilon, 1e-5, as_published=True)) == [0.40, 4.00]
    assert fitted(lambda epsilon: gaussian_scale(epsilon, 1e-5)) == [0.73, 2.62]  # the values of Appendix E


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 20.0])
def test_deltas_of_many_epsilons_are_those_of_each(scale: float) -> None:
    epsilons = np.concatenate([[0.0], np.geomspace(1e-6, 300, 200)])
    each = [gaussian_log_delta(float(epsilon), scale) for epsilon in epsilons]
    np.testing.assert_allclose(gaussian_log_deltas(epsilons, scale), each, rtol=1e-13, atol=1e-15)
