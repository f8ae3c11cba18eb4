"""The law of the cosine agrees with Bessel functions and continued fractions in high precision."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from epsilometer.core.von_mises_fisher import (
    angle_range,
    component_moments,
    information,
    log_angle_density,
    log_component_density,
    log_density,
    log_moment,
    log_moments,
    mean_cosine,
    quadrature,
)
from tests.support.refusals import refused

KAPPAS = (1e-3, 0.5, 10, 999, 1001, 1e4, 1e9)


def by_bessel(kappa: float, dimension: int) -> tuple[float, float]:
    """A and ln M to 40 digits."""
    with mpmath.workdps(40):
        order, k = mpmath.mpf(dimension) / 2 - 1, mpmath.mpf(kappa)
        bessel = mpmath.besseli(order, k)
        moment = mpmath.log(mpmath.gamma(order + 1) * (2 / k) ** order * bessel)
        return float(mpmath.besseli(order + 1, k) / bessel), float(moment)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("dimension", [2, 3, 60, 3072])
def test_mean_and_moment_are_those_of_bessel_functions(kappa: float, dimension: int) -> None:
    cosine, moment = by_bessel(kappa, dimension)
    assert mean_cosine(kappa, dimension) == pytest.approx(cosine, rel=1e-14)
    assert log_moment(kappa, dimension) == pytest.approx(moment, rel=1e-11)


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 49, 383, 767, 3071])
def test_many_moments_at_once_are_those_of_bessel_functions(dimension: int) -> None:
    """Also where the scaled Bessel function underflows, as at dimension 3071 and kappa 10, and at kappa 0."""
    kappas = np.array([0.0, 1e-9, 1e-3, 0.5, 3, 10, 100, 191, 250, 999, 1001, 1e4, 1e6, 1e9])
    for kappa, moment in zip(kappas[1:], log_moments(kappas, dimension)[1:], strict=True):
        with mpmath.workdps(60):
            order, k = mpmath.mpf(dimension) / 2 - 1, mpmath.mpf(float(kappa))
            exact = mpmath.log(mpmath.gamma(order + 1) * (2 / k) ** order * mpmath.besseli(order, k))
        assert moment == pytest.approx(float(exact), rel=1e-11, abs=2e-12)
    assert log_moments(kappas, dimension)[0] == 0


@pytest.mark.parametrize(
    ("kappa", "dimension", "cosine"), [(30, 50, 0.3), (5, 8, 0.5), (1e4, 3, -0.1), (150, 768, 0.7)]
)
def test_the_density_of_a_component_has_its_moments(kappa: float, dimension: int, cosine: float) -> None:
    """Mass, mean and deviation, against closed forms; the density itself, against a sphere's integral in mpmath."""
    mean, deviation = component_moments(cosine, kappa, dimension)
    ends = np.clip([mean + 80 * deviation, mean - 80 * deviation], -1, 1)
    angles = np.linspace(*np.arccos(ends), 200_001)[1:-1]
    masses = np.exp(log_component_density(angles, cosine, kappa, dimension)) * (angles[1] - angles[0])
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    assert masses @ np.cos(angles) == pytest.approx(mean, abs=1e-9)
    assert masses @ (np.cos(angles) - mean) ** 2 == pytest.approx(deviation**2, rel=1e-7)
    with mpmath.workdps(40):
        order, t = mpmath.mpf(dimension - 3) / 2, mpmath.mpf(mean)

        def density(t: mpmath.mpf) -> mpmath.mpf:
            z = kappa * mpmath.sqrt((1 - mpmath.mpf(cosine) ** 2) * (1 - t * t))
            return (1 - t * t) ** order * mpmath.exp(kappa * cosine * t) * z**-order * mpmath.besseli(order, z)

        exact = [mpmath.log(density(t + side * deviation)) for side in (0, 1)]
    places = np.arccos([mean, mean + deviation])
    ours = log_component_density(places, cosine, kappa, dimension) - np.log(np.sin(places))
    assert ours[1] - ours[0] == pytest.approx(float(exact[1] - exact[0]), abs=1e-8)


def by_continued_fraction(kappa: float, dimension: int) -> float:
    """A to 30 digits: the even convergents from below, the odd ones from above, until both agree."""
    with mpmath.workdps(30):
        k = mpmath.mpf(kappa)
        value = mpmath.mpf(0)
        for j in range(int(3 * math.sqrt(kappa)) + 20_000, 0, -1):
            value = 1 / ((dimension + 2 * (j - 1)) / k + value)
        return float(value)


@pytest.mark.parametrize("kappa", [1e-3, 10.0, 1e4, 1e5])
def test_the_mean_at_the_size_of_a_head(kappa: float) -> None:
    assert mean_cosine(kappa, 592_130) == pytest.approx(by_continued_fraction(kappa, 592_130), rel=1e-14)


def test_mean_and_deviation_are_the_published_ones() -> None:
    """To nine digits and to four, from 10^4 to 10^7 in the dimensions of two models' heads."""
    for kappa, mean, deviation in (
        (1e4, 0.016883369, 1.299e-3), (1e5, 0.164321761, 1.248e-3), (1e6, 0.746842004, 4.605e-4),
        (1e7, 0.970831724, 5.360e-5),
    ):  # fmt: skip
        cosines, weights = quadrature(kappa, 592_130)
        assert mean_cosine(kappa, 592_130) == pytest.approx(mean, abs=6e-10)
        assert weights @ cosines == pytest.approx(mean, abs=6e-10)
        assert math.sqrt(weights @ (cosines - mean) ** 2) == pytest.approx(deviation, rel=5e-4)
    assert mean_cosine(1e3, 3072) == pytest.approx(0.296851347, abs=6e-10)
    assert mean_cosine(1e7, 3072) == pytest.approx(0.999846462, abs=6e-10)


@pytest.mark.parametrize("kappa", [1e-3, 1.0, 30.0, 1e5])
def test_three_dimensions_in_closed_form(kappa: float) -> None:
    """There W has the density kappa e^(kappa w) / (2 sinh kappa), and A is coth kappa - 1 / kappa."""
    closed = kappa / 3 if kappa < 0.01 else 1 / math.tanh(kappa) - 1 / kappa
    assert mean_cosine(kappa, 3) == pytest.approx(closed, rel=1e-6)
    w = np.array([-0.9, 0.1, 0.8])
    log_sinh = math.log(-math.expm1(-2 * kappa)) + kappa
    assert log_density(w, kappa, 3) == pytest.approx(kappa * w + math.log(kappa) - log_sinh, abs=1e-10 * (1 + kappa))


@pytest.mark.parametrize("kappa", [1e-3, 10.0, 1e5, 1e9])
@pytest.mark.parametrize("dimension", [2, 3, 10, 592_130, 10**8])
def test_density_mean_and_range_belong_together(kappa: float, dimension: int) -> None:
    low, high = angle_range(kappa, dimension)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    angles = low + (high - low) * (nodes + 1) / 2
    mass = (high - low) / 2 * weights * np.exp(log_angle_density(angles, kappa, dimension))
    assert mass.sum() == pytest.approx(1, abs=2e-7)
    assert mass @ np.cos(angles) == pytest.approx(mean_cosine(kappa, dimension), rel=3e-7, abs=1e-12)
    cosines, shares = quadrature(kappa, dimension)
    assert shares @ cosines == pytest.approx(mean_cosine(kappa, dimension), rel=1e-10, abs=1e-12)


def test_the_information_of_a_draw() -> None:
    """kappa^2 / 2d while that is small; 84 nats at kappa 10^4 and the size of BERT's head."""
    assert information(10.0, 592_130) == pytest.approx(100 / (2 * 592_130), rel=1e-4)
    assert information(1e4, 592_130) == pytest.approx(84.4, abs=0.1)


@pytest.mark.parametrize("kappa", [0.0, -1.0, math.inf, math.nan])
def test_a_concentration_that_no_law_has_is_refused(kappa: float) -> None:
    with refused("EPS-C069", "kappa", str(kappa)):
        mean_cosine(kappa, 10)


def test_a_direction_in_one_dimension_is_refused() -> None:
    with refused("EPS-C070", "1"):
        mean_cosine(1.0, 1)
