"""Losses of directional draws: closed forms, draws, quadrature by another library, and products of units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from epsilometer.auditing.exact_loss.directions import direction_losses, largest_losses, product
from epsilometer.core.mechanism import Directions
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.core.von_mises_fisher import log_moment
from epsilometer.mechanisms.words.shared.turned import turned_about, uniforms_of_a_draw

ALPHA = 1e-9  # a test of draws fails by chance once in 10^9 seeds


def two(dimension: int, angle: float, *kappas: float) -> Directions:
    units = np.zeros((2, dimension))
    units[0, 0], units[1, 0], units[1, 1] = 1, math.cos(angle), math.sin(angle)
    return Directions(Ragged.single(np.arange(2)), units, np.array(kappas, float))


def distinguished(directions: Directions, units: int = 1) -> tuple[float, float]:
    """The total variation of products of `units` equal units."""
    error = product(directions, np.tile([0, 1], (units, 1))).log_error()
    return 1 - 2 * math.exp(error.high), 1 - 2 * math.exp(error.low)


def by_bessel(dimension: int, angle: float, kappa: float) -> float:
    """2 P(t > 0) - 1 by scipy's Bessel function and its quadrature."""
    a, order = math.sin(angle / 2), (dimension - 3) / 2

    def density(t: float) -> float:
        z = kappa * math.sqrt((1 - a * a) * (1 - t * t))
        shape = (1 - t * t) ** order * z**-order * special.ive(order, z)
        return shape * math.exp(kappa * a * t + z - kappa)

    above, below = integrate.quad(density, 0, 1)[0], integrate.quad(density, -1, 0)[0]
    return (above - below) / (above + below)


@pytest.mark.parametrize(("dimension", "angle", "kappa"), [(8, 1.0, 5), (50, 0.8, 30), (50, 1.0, 30), (25, 0.2, 90)])
def test_total_variation_of_equal_concentrations(dimension: int, angle: float, kappa: float) -> None:
    low, high = distinguished(two(dimension, angle, kappa, kappa))
    exact = by_bessel(dimension, angle, kappa)
    assert low - 1e-9 <= exact <= high + 1e-9
    assert high - low < 1e-3


def test_total_variation_of_eight_dimensions_is_the_known_one() -> None:
    assert distinguished(two(8, 1.0, 5, 5))[1] == pytest.approx(0.5640, abs=5e-5)


@pytest.mark.parametrize(("dimension", "kappas"), [(8, (5, 5)), (50, (30, 30)), (50, (10, 30)), (150, (40, 90))])
def test_draws_have_the_computed_losses(dimension: int, kappas: tuple[float, float]) -> None:
    """40,000 draws: the share of draws with P > P', at 10^-9; and under the other law."""
    directions, count = two(dimension, 1.0, *kappas), 40_000
    unit, difference = direction_losses(directions, 0, 1, 1e-3), directions.units * np.array(kappas)[:, None]
    offset = log_moment(kappas[1], dimension) - log_moment(kappas[0], dimension)
    for side, sign in ((0, 1), (1, -1)):
        uniforms = Noise.named(count, "test", side).uniforms(uniforms_of_a_draw(dimension))
        draws = turned_about(np.tile(directions.units[side], (count, 1)), np.full(count, kappas[side], float), uniforms)
        np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1, atol=1e-12)
        loss = draws @ (difference[0] - difference[1]) + offset
        masses = np.exp(unit.log_weights + sign * unit.places * unit.step / 2)
        exact = masses[unit.places > 0].sum()
        assert masses.sum() == pytest.approx(1, abs=1e-6)
        assert stats.binomtest(int((loss > 0).sum()), count, min(exact, 1)).pvalue > ALPHA
        assert loss @ np.ones(count) / count == pytest.approx(
            masses @ (unit.places * unit.step), abs=7 * loss.std() / math.sqrt(count) + 2e-3
        )


def test_units_compose() -> None:
    """Four units of one dimension pair against the sum of their draws' losses, at 10^-9."""
    directions, count = two(12, 0.5, 8, 8), 20_000
    low, high = distinguished(directions, 4)
    shares = []
    for side in (0, 1):
        uniforms = Noise.named(4 * count, "units", side).uniforms(uniforms_of_a_draw(12))
        draws = turned_about(np.tile(directions.units[side], (4 * count, 1)), np.full(4 * count, 8.0), uniforms)
        loss = (draws @ (directions.units[0] - directions.units[1])).reshape(count, 4).sum(axis=1)
        shares.append((loss > 0).mean())
    slack = 6.2 * math.sqrt(2 * 0.25 / count)
    assert low - slack <= shares[0] - shares[1] <= high + slack


@pytest.mark.parametrize("kappas", [(150.0, 150.0), (150.0, 450.0)])
def test_the_largest_loss_is_reached_and_none_is_larger(kappas: tuple[float, float]) -> None:
    directions = two(768, math.pi / 2, *kappas)
    forth, back = largest_losses(directions, 0, 1)
    if kappas[0] == kappas[1]:
        assert forth == back == pytest.approx(150 * math.sqrt(2))
    else:
        assert (forth, back) == pytest.approx((575.69, 373.00), abs=0.01)  # the claim does not cover this pair
    pair = product(directions, np.array([[0, 1]]))
    assert (pair.pure_loss, pair.reversed.pure_loss) == pytest.approx((forth, back))


@pytest.mark.parametrize("kappa", [1e-3, 1e9])
@pytest.mark.parametrize("dimension", [2, 3, 50, 3072])
def test_extremes_are_finite(kappa: float, dimension: int) -> None:
    low, high = distinguished(two(dimension, 0.3, kappa, kappa))
    assert 0 <= low <= high <= 1
    assert high < 1e-3 if kappa < 1 else low > 0.999


def test_equal_directions_lose_nothing() -> None:
    assert distinguished(two(10, 0.0, 3.0, 3.0)) == (0, 0)
