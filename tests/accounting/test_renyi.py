"""Renyi divergences agree with closed forms and a released accountant, and are never below the exact epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epsilometer.accounting.dominating_pairs import Added, FromUniform, Opposite, Pair, Removed, Replaced, ToUniform
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.renyi import RELEASED, log_moment_of, renyi, renyi_on
from epsilometer.accounting.steps import Step


@pytest.mark.parametrize("order", [2, 3, 10, 40])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_whole_orders_are_binomial_sums(order: int, sigma: float) -> None:
    """A = sum_k C(alpha, k) (1-q)^(alpha-k) q^k e^((k^2 - k) / 2s^2) (Mironov, Talwar and Zhang 2019, section 3.3)."""
    rate = 0.02
    terms = [
        math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        + (order - k) * math.log1p(-rate) + k * math.log(rate) + k * (k - 1) / (2 * sigma**2)
        for k in range(order + 1)
    ]  # fmt: skip
    exact = np.logaddexp.reduce(terms)
    assert log_moment_of(Step((Removed(sigma, rate),)), order - 1) == pytest.approx(exact, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    "pair",
    [Opposite(30.0, 12), ToUniform(30.0, 12), FromUniform(30.0, 12), Replaced(0.8, 0.1), Replaced(0.8, 1.0)],
    ids=str,
)
@pytest.mark.parametrize("excess", [1e-3, 0.7, 3.0])
def test_moments_are_those_of_the_losses(pair: Pair, excess: float) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(800)
    total = 0.0
    for low, high in pair.spans(1e-60):
        x = low + (high - low) * (nodes + 1) / 2
        total += (high - low) / 2 * weights @ np.exp(pair.log_density(x) + excess * pair.loss(x))
    assert log_moment_of(Step((pair,)), excess) == pytest.approx(math.log(total), rel=1e-7, abs=1e-9)


def test_a_coin_and_parts() -> None:
    """ln(1 - q + q M^parts)."""
    pair = Opposite(30.0, 12)
    alone = log_moment_of(Step((pair,)), 0.7)
    assert log_moment_of(Step((pair, pair), 0.25), 0.7) == pytest.approx(math.log(0.75 + 0.25 * math.exp(2 * alone)))


@pytest.mark.slow  # importing torch takes most of the time
@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [
        (1.0, 1 / 420, 4200, 1 / 53_710),
        (0.46, 1 / 176, 528, 1 / 22_500),
        (0.024, 1 / 40, 1200, 1 / 5_056),
        (2.0, 1.0, 7, 1e-6),
    ],
)
def test_the_released_accountant_says_the_same(sigma: float, rate: float, steps: int, delta: float) -> None:
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    divergences = rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=steps, orders=list(RELEASED))
    with np.testing.suppress_warnings() as quiet:
        quiet.filter(UserWarning)
        theirs, _ = rdp.get_privacy_spent(orders=list(RELEASED), rdp=divergences, delta=delta)
    ours = renyi_on(RELEASED, [Step((Removed(sigma, rate),))], steps, delta)
    assert ours == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize(
    ("directions", "steps", "delta"),
    [
        ([Step((Removed(1.0, 1 / 40),)), Step((Added(1.0, 1 / 40),))], 400, 1e-5),
        ([Step((Removed(0.03, 1 / 40),)), Step((Added(0.03, 1 / 40),))], 400, 1e-5),
        ([Step((Replaced(0.6, 1 / 40),))], 400, 1e-5),
        ([Step((Opposite(1e3, 3_072),))], 10, 1e-5),
        ([Step((Opposite(1e4, 592_130),), 1 / 40)], 400, 1e-5),
        ([Step((ToUniform(1e3, 3_072),)), Step((FromUniform(1e3, 3_072),))], 10, 1e-5),
    ],
)
def test_it_is_above_the_exact_epsilon_and_not_far(directions: list[Step], steps: int, delta: float) -> None:
    exact = bracket(directions, steps, delta)
    upper = renyi(directions, steps, delta)
    assert exact.lower < upper < 1.35 * exact.upper
    assert upper <= renyi_on(RELEASED, directions, steps, delta) * (1 + 1e-9)


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(1.0, 0.01, 1000), (0.3, 1 / 176, 500), (5.0, 0.2, 10_000)])
def test_orders_that_are_left_out_are_not_the_least(sigma: float, rate: float, steps: int) -> None:
    """Against every order and both directions."""
    directions, delta = [Step((Removed(sigma, rate),)), Step((Added(sigma, rate),))], 1e-5
    every = [
        steps * log_moment_of(step, order - 1) / (order - 1)
        + math.log((order - 1) / order)
        - (math.log(delta) + math.log(order)) / (order - 1)
        for step in directions
        for order in RELEASED
    ]
    assert renyi_on(RELEASED, directions, steps, delta) == max(0.0, min(every[: len(RELEASED)]))
    assert min(every[: len(RELEASED)]) >= min(every[len(RELEASED) :])
