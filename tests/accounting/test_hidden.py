"""Losses of an average of draws under coins, by simulation, compared with Gaussian noise of the same size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.accounting.dominating_pairs import Replaced
from epsilometer.accounting.hidden import by_shown_steps, chances, lower_end, pair_along
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import VonMisesFisher
from epsilometer.accounting.schedule import Poisson
from epsilometer.accounting.statement import effective_noise
from epsilometer.accounting.steps import Step
from epsilometer.core.von_mises_fisher import log_density, mean_cosine, quadrature


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


@pytest.mark.parametrize("d", [3, 4, 6])
@pytest.mark.parametrize("kappa", [0.3, 1.0, 2.0])
def test_a_draw_alone_shows_no_more_than_by_its_density(kappa: float, d: int) -> None:
    """Its characteristic function falls slowly in few dimensions; cut off, it showed up to 3 % more, or nothing."""
    pair = pair_along(kappa, d, Poisson(texts=1, batch=1, epochs=1))
    assert pair is not None
    cosines = np.cos((np.arange(200_000) + 0.5) / 200_000 * math.pi)
    weights = np.exp(log_density(cosines, kappa, d)) * np.sin(np.arccos(cosines)) * math.pi / 200_000
    shares = []
    for epsilon in np.linspace(0, 0.9 * 2 * kappa, 10):
        shown = float(np.exp(pair.log_masses) @ np.maximum(-np.expm1(epsilon - pair.losses), 0))
        exact = float(weights @ np.maximum(-np.expm1(epsilon - 2 * kappa * cosines), 0))
        assert shown <= exact * (1 + 1e-6) + 1e-10
        shares.append(shown / max(exact, 1e-300))
    assert shares[0] > 0.7


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


def test_cells_lose_nothing_of_the_divergence_of_a_step() -> None:
    """To 2 % that of Gaussian noise of the same effect, where draws are nearly normal."""
    kappa, d, schedule = 100.0, 3_072, Poisson(2_560, 128, 1)
    pair = pair_along(kappa, d, schedule)
    assert pair is not None
    masses = np.exp(pair.log_masses)
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    shown = float(masses @ pair.losses)
    sigma = effective_noise(VonMisesFisher(kappa, (d,)), schedule)
    alike = Replaced(sigma, float(schedule.rate))
    x = np.linspace(-60, 60, 400_001)
    divergence = float(np.trapezoid(np.exp(alike.log_density(x)) * alike.loss(x), x))
    assert shown == pytest.approx(divergence, rel=0.02)


def simulated(kappa: float, d: int, schedule: Poisson, sign: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The components of [count] sums along v, the example's direction if sign is 1, and along u, all others'."""
    rng = np.random.default_rng(7)
    rate, sums = float(schedule.rate), np.zeros((2, count))
    cosines, weights = quadrature(kappa, d)
    for j in range(schedule.texts):
        rows = np.flatnonzero(rng.random(count) < rate)
        w = rng.choice(cosines, len(rows), p=weights)
        tangent = rng.normal(size=(len(rows), d - 1))
        aside = np.sqrt(1 - w**2) * tangent[:, 0] / np.linalg.norm(tangent, axis=1)
        own, other = (0, 1) if j == 0 else (1, 0)
        sums[own, rows] += (sign if j == 0 else 1) * w
        sums[other, rows] += aside
    return sums[0], sums[1]


@pytest.mark.slow
def test_a_step_shows_the_example_as_often_as_is_said() -> None:
    """100,000 simulated steps; a bound that is as tight as it may be fails once in 10^6 runs (5 standard errors)."""
    kappa, d, schedule, count = 300.0, 40, Poisson(40, 10, 1), 100_000
    threshold, deviations = 0.5 * mean_cosine(kappa, d), 2.0
    size = 39 / 4 + deviations * math.sqrt(39 * 3 / 16) + 1
    there, log_absent = chances(kappa, d, schedule, threshold=threshold, deviations=deviations)
    for sign, least, most in ((1.0, there, 1.0), (-1.0, 0.0, math.exp(log_absent))):
        along, across = simulated(kappa, d, schedule, sign, count)
        share = float(np.mean((along > threshold) & (across < size * mean_cosine(kappa, d))))
        error = 5 * math.sqrt(max(share, 1 / count) / count)
        assert least - error <= share <= most + error
    assert there > 0.15
    assert log_absent < math.log(0.1)


def test_little_noise_shows_thousands_of_nats() -> None:
    """Cells end at 1e-11 of a step and prove 427 nats; an equally loud Gaussian noise loses 4,422."""
    schedule, release = Poisson(2_703, 128, 10), VonMisesFisher(1e5, (148_610,))
    along = pair_along(1e5, 148_610, schedule)
    assert along is not None
    cut = bracket([Step((along,))], schedule.steps, 1 / 2_703).lower
    shown = by_shown_steps(1e5, 148_610, schedule, 1 / 2_703)
    assert cut < 450 < 2_500 < shown < 4_422
    assert lower_end(release, schedule, 1 / 2_703) == shown
