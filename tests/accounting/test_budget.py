"""The noise for a target epsilon meets the target, and less noise does not."""

from __future__ import annotations

import pytest

from epsilometer.accounting.budget import directional_for, gaussian_for
from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.schedule import Poisson, Shuffled
from epsilometer.accounting.statement import account
from epsilometer.core.guarantees import Neighbours
from epsilometer.mechanisms.latents.shared.noise import gaussian_scale
from tests.support.refusals import refused


def test_without_sampling_it_is_the_analytic_gaussian() -> None:
    """Four passes with noise sigma are one with sigma / 2."""
    sigma = gaussian_for(3.0, Shuffled(100, 100, 4), 1e-5).sigma
    assert sigma == pytest.approx(2 * gaussian_scale(3.0, 1e-5), rel=2e-3)


@pytest.mark.parametrize(
    "target", [pytest.param(0.3, marks=pytest.mark.slow), 8.0, pytest.param(5e4, marks=pytest.mark.slow)]
)
def test_a_sampled_training_meets_its_target(target: float) -> None:
    schedule = Poisson(5_056, 128, 10)
    sigma = gaussian_for(target, schedule).sigma

    def upper(amount: float) -> float:
        return account(Gaussian(amount), schedule, neighbours=Neighbours.ADDED_OR_REMOVED)[0].upper

    assert 0.98 * target < upper(sigma) <= target
    assert upper(sigma * 0.99) > target


def test_directional_draws_meet_their_target() -> None:
    schedule = Shuffled(5_056, 128, 10)
    kappa = directional_for(8.0, (592_130,), schedule).kappa
    assert 7.9 < account(VonMisesFisher(kappa, (592_130,)), schedule)[0].upper <= 8.0
    assert directional_for(8.0, (592_130,), schedule, delta=0).kappa == pytest.approx(0.4, rel=2e-4)


@pytest.mark.parametrize("target", [0.0, -1.0, float("inf"), float("nan")])
def test_targets_that_are_none_are_refused(target: float) -> None:
    with refused("EPS-L001", "0"):
        gaussian_for(target, Poisson(100, 10, 1))
