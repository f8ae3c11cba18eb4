"""The accountants agree with the released package dp-accounting, if it is installed.

That package requires attrs below 24, so it is not in the extra `test`; at run time newer versions work, too.
"""

from __future__ import annotations

import pytest

from epsilometer.accounting.dominating_pairs import Added, Removed
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.renyi import renyi_on
from epsilometer.accounting.steps import Step

SETTINGS = [  # sigma, rate, steps, delta
    (1.0, 1 / 40, 400, 1e-5),
    (3.06, 1 / 40, 1200, 1 / 5_056),
    (0.46, 1 / 176, 528, 1 / 22_500),
    (2.0, 1.0, 7, 1e-6),
]


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), SETTINGS)
def test_the_brackets_of_both_meet(sigma: float, rate: float, steps: int, delta: float) -> None:
    """Both are proofs, by another discretisation each: neither end lies beyond the other's other end."""
    released = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    ours = bracket([Step((Removed(sigma, rate),)), Step((Added(sigma, rate),))], steps, delta)
    upper, lower = (
        released.from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=1e-3, pessimistic_estimate=pessimistic
        )
        .self_compose(steps)
        .get_epsilon_for_delta(delta)
        for pessimistic in (True, False)
    )
    assert lower <= upper
    assert ours.lower <= upper * (1 + 1e-6)
    assert ours.upper >= lower * (1 - 1e-6)
    assert ours.upper == pytest.approx(upper, rel=0.02, abs=0.02)


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), SETTINGS)
def test_renyi_on_the_same_orders_is_the_same(sigma: float, rate: float, steps: int, delta: float) -> None:
    dp = pytest.importorskip("dp_accounting")
    orders = [1.1, 1.5, 2.0, 2.5, 4.0, 8.0, 16.0, 32.0, 64.0]
    accountant = dp.rdp.RdpAccountant(orders)
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), steps)
    ours = renyi_on(orders, [Step((Removed(sigma, rate),))], steps, delta)
    assert ours == pytest.approx(accountant.get_epsilon(delta), rel=1e-6)
