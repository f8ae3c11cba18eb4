"""Losses on a grid: the masses of both laws are preserved, and rounding raises losses by at most the stated amount."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.accounting.convolution.grid import raise_moments, split, unit_losses


@pytest.mark.parametrize("step", [1e-4, 0.03, 1.0, 50.0])
@pytest.mark.parametrize("scale", [0.1, 10.0, 800.0])
def test_both_laws_keep_their_mass(step: float, scale: float) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, 500)) * scale
    first, second = weights - np.logaddexp.reduce(weights, axis=1, keepdims=True)
    unit = unit_losses(first, second, step)
    for sign in (0.5, -0.5):
        mass = float(np.logaddexp.reduce(unit.log_weights + sign * unit.places * step))
        assert mass == pytest.approx(0.0, abs=1e-11 * max(1.0, scale))


def test_an_output_goes_up_as_often_as_its_moments_say() -> None:
    """Each loss alone: the mass of P at the upper point, and the mean and mean square of the amount it was raised."""
    step = 0.3
    for loss in (-1.0, 0.05, 0.15, 0.2999, 2.0):
        places, log_weights, _ = split(np.zeros(1), np.full(1, -loss), np.full(1, loss), step)
        masses = np.exp(log_weights + places * step / 2)  # masses under P
        by = places * step - loss
        mean, square = raise_moments(np.full(1, loss), step)
        assert masses.sum() == pytest.approx(1, rel=1e-13)
        assert masses @ np.exp(-by) == pytest.approx(1, rel=1e-13)  # the mean of e^-loss does not change
        assert masses @ by == pytest.approx(float(mean[0]), abs=1e-14)
        assert masses @ by**2 == pytest.approx(float(square[0]), abs=1e-14)


def test_rounding_drawn_at_random_lies_between_both_bounds() -> None:
    """Sums of 50 losses, each rounded by a drawn direction: delta of the rounded sums is above the exact one, and below
    it at the level that the rounding has passed but for a small probability. Five standard errors of 200,000 sums: a
    false alarm in some 10^6 runs.
    """
    rng, step, count, sums = np.random.default_rng(1), 0.2, 50, 200_000
    values, probabilities = np.array([-0.61, -0.13, 0.17, 0.58]), np.array([0.15, 0.25, 0.3, 0.3])
    often = rng.multinomial(count, probabilities, sums)
    exact = often @ values
    mean, square = raise_moments(values, step)
    below = np.floor(values / step) * step
    up = (mean + values - below) / step
    rounded = often @ below + step * rng.binomial(often, up).sum(axis=1)
    by = rounded - exact
    raised, variance = float(often.mean(axis=0) @ mean), count * float(probabilities @ square)
    assert abs(by.mean() - count * float(probabilities @ mean)) <= 5 * by.std() / math.sqrt(sums)
    rarity = math.log(1e3)
    late = step * rarity / 3 + math.sqrt((step * rarity / 3) ** 2 + 2 * variance * rarity)  # Bernstein
    assert (by > raised + late).mean() <= 1e-3
    for level in (0.0, 3.0, 10.0):
        higher = np.maximum(-np.expm1(level - rounded), 0)
        lower = np.maximum(-np.expm1(level + raised + late - rounded), 0)
        true = np.maximum(-np.expm1(level - exact), 0)
        error = 5 * (higher - true).std() / math.sqrt(sums)
        assert higher.mean() >= true.mean() - error
        assert lower.mean() - 1e-3 <= true.mean()
