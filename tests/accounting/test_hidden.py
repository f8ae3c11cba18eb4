"""What an average of draws itself loses under coins: by simulation, and beside Gaussian noise of the same effect."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.accounting.hidden import lower_end, pair_along
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.pairs import Replaced
from epsilometer.accounting.releases import VonMisesFisher
from epsilometer.accounting.schedule import Poisson
from epsilometer.accounting.statement import effective_noise
from epsilometer.accounting.steps import Step
from epsilometer.core.von_mises_fisher import quadrature


def draws_aside(kappa: float, d: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """The component at right angles to the mean of [count] draws."""
    cosines, weights = quadrature(kappa, d)
    w = rng.choice(cosines, count, p=weights)
    tangent = rng.normal(size=(count, d - 1))
    return np.sqrt(1 - w**2) * tangent[:, 0] / np.linalg.norm(tangent, axis=1)


def test_one_step_is_that_of_simulated_averages() -> None:
    """delta at epsilon 0 and 0.3 of 100,000 simulated sums: five standard errors, a false alarm in some 10^6 runs."""
    kappa, d, schedule, count = 12.0, 8, Poisson(texts=21, batch=7, epochs=1), 100_000
    rng = np.random.default_rng(3)
    there = rng.random((count, 20)) < 1 / 3
    sums = np.zeros(count)
    rows = np.nonzero(there)[0]
    np.add.at(sums, rows, draws_aside(kappa, d, len(rows), rng))
    cosines, weights = quadrature(kappa, d)
    sums += (rng.random(count) < 1 / 3) * rng.choice(cosines, count, p=weights)
    pair = pair_along(kappa, d, schedule)
    assert pair is not None
    for epsilon in (0.0, 0.3):
        exact = float(np.exp(pair.log_masses) @ np.maximum(-np.expm1(epsilon - pair.losses), 0))
        best = max(np.mean(sums > t) - math.exp(epsilon) * np.mean(sums < -t) for t in np.linspace(-0.2, 0.6, 81))
        assert exact == pytest.approx(best, abs=5 * 0.9 / math.sqrt(count))


@pytest.mark.parametrize(("kappa", "dimension"), [(1e3, 592_130), (1e4, 592_130), (1e3, 3_072)])
def test_it_is_close_to_gaussian_noise_of_the_same_effect(kappa: float, dimension: int) -> None:
    """Where draws are as isotropic as a Gaussian's, averages lose what replaced examples under that sigma do."""
    schedule, release = Poisson(5_056, 128, 10), VonMisesFisher(kappa, (dimension,))
    sigma = effective_noise(release, schedule)
    alike = bracket([Step((Replaced(sigma, float(schedule.rate)),))], schedule.steps, 1 / 5_056)
    assert lower_end(release, schedule, 1 / 5_056) == pytest.approx(alike.lower, rel=0.05)


def test_parts_show_what_the_best_of_them_shows() -> None:
    schedule = Poisson(5_056, 128, 10)
    alone = lower_end(VonMisesFisher(1e3, (3_072,)), schedule, 1e-4)
    assert lower_end(VonMisesFisher(1e3, (592_130, 3_072, 2)), schedule, 1e-4) == alone
    assert lower_end(VonMisesFisher(1e3, (2,)), schedule, 1e-4) == 0
