"""Upper bounds for attacks on a noisy gradient: closed forms, limits and sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.core.von_mises_fisher import log_moment
from epsilometer.studies.training.results.reconstruction_bounds import exact_match, information, pair_success
from tests.support.refusals import refused


def test_information_is_what_the_facts_say() -> None:
    """2,551 nats at sigma .014, 50 at .1, 8 at .25, .5 at 1; 84 at kappa 1e4 in bert-base's head; parts add up."""
    bits = [information(Gaussian(sigma)) for sigma in (0.014, 0.1, 0.25, 1)]
    assert bits == pytest.approx([2551.02, 50, 8, 0.5], rel=1e-6)
    assert information(VonMisesFisher(1e4, (592_130,))) == pytest.approx(84, abs=0.6)
    parts = information(VonMisesFisher(100.0, (300, 700)))
    assert parts == pytest.approx(sum(information(VonMisesFisher(100.0, (d,))) for d in (300, 700)))


def test_the_sphere_of_three_dimensions_in_closed_form() -> None:
    """In R^3 the cosine is uniform without a draw, and has the density kappa e^(kappa w) / 2 sinh kappa with one.

    So f(p0) = (e^kappa - e^(kappa c)) / (2 sinh kappa), c = 1 - 2 p0, and 2 p0 at kappa near 0 is p0 itself.
    """
    for kappa in (0.5, 3.0, 40.0):
        for blind in (0.01, 0.3, 0.9):
            cut = 1 - 2 * blind
            truth = (np.exp(kappa) - np.exp(kappa * cut)) / (2 * np.sinh(kappa))
            assert exact_match(VonMisesFisher(kappa, (3,)), blind) == pytest.approx(truth, rel=1e-9)
        for blind in (1e-12, 1e-30):
            truth = np.expm1(-2 * kappa * blind) / np.expm1(-2 * kappa)
            assert exact_match(VonMisesFisher(kappa, (3,)), blind) == pytest.approx(truth, rel=1e-9)
    assert exact_match(VonMisesFisher(1e-3, (3,)), 0.3) == pytest.approx(0.3, abs=3e-4)


def test_many_dimensions_are_nearly_gaussian() -> None:
    """With sigma = 1 / sqrt(kappa A), about sqrt(d) / kappa: what the effective noise of one draw says."""
    kappa, dimension = 3000.0, 592_130
    sigma = np.sqrt(dimension) / kappa
    for blind in (1e-4, 0.1):
        directional, gaussian = (
            exact_match(release, blind) for release in (VonMisesFisher(kappa, (dimension,)), Gaussian(sigma))
        )
        assert directional == pytest.approx(gaussian, rel=0.01)
    near = pair_success(VonMisesFisher(kappa, (dimension,)), [0.0, 0.7, 1.9])
    np.testing.assert_allclose(near, norm.cdf(np.array([0.0, 0.7, 1.9]) / (2 * sigma)), rtol=2e-3)


@pytest.mark.parametrize(("kappa", "dimension"), [(2.0, 5), (30.0, 20), (700.0, 3072)])
def test_the_pair_by_another_decomposition(kappa: float, dimension: int) -> None:
    """About v = (u - u') / |u - u'| instead of u: the density of s = v'y is proportional to
    (1 - s^2)^((d-3)/2) e^(kappa a s) M_(d-1)(kappa b sqrt(1 - s^2)), a = v'u, b = sqrt(1 - a^2)."""
    for distance in (0.2, 0.9, 1.6):
        a = distance / 2
        b = np.sqrt(1 - a * a)
        peak = kappa * b  # so that exponents stay small

        def density(s: float, a: float = a, b: float = b, peak: float = peak) -> float:
            around = log_moment(max(kappa * b * np.sqrt(1 - s * s), 1e-3), dimension - 1)
            return float(np.exp(kappa * a * s + (dimension - 3) / 2 * np.log1p(-s * s) + around - min(peak, kappa)))

        up = quad(density, 0, 1 - 1e-12, limit=400, points=[0.01, 0.05, 0.2])[0]
        down = quad(density, -1 + 1e-12, 0, limit=400, points=[-0.2, -0.05, -0.01])[0]
        assert pair_success(VonMisesFisher(kappa, (dimension,)), distance) == pytest.approx(up / (up + down), abs=2e-5)


def test_no_match_is_likelier_than_the_bound_between_two() -> None:
    """Among two equally likely texts of opposite gradients the optimum is below f(1/2)."""
    for release in (Gaussian(0.7), VonMisesFisher(25.0, (100,))):
        assert 0.5 < pair_success(release, 1.0) < exact_match(release, 0.5) < 1
        assert exact_match(release, 1.0) == 1


def test_bad_input_is_refused() -> None:
    with refused("EPS-A052", "0", "1", "0"):
        exact_match(Gaussian(1.0), 0)
    for work in (lambda release: exact_match(release, 0.1), lambda release: pair_success(release, 1.0)):
        with refused("EPS-A053"):
            work(VonMisesFisher(1.0, (10, 20)))


@pytest.mark.parametrize(("kappa", "dimension"), [(1.0, 2), (0.01, 10), (1.0, 100)])
def test_what_is_hardly_ever_guessed_is_matched_at_least_as_often_under_the_noise(kappa: float, dimension: int) -> None:
    """The cosine of so small a cap is 1 to all digits."""
    assert 1e-30 < exact_match(VonMisesFisher(kappa, (dimension,)), 1e-30) < 1e-30 * np.exp(2 * kappa)
