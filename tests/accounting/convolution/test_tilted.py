"""The law of a sum of losses is compared, from both sides, with sums over all outputs, closed forms and convolution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom

from epsilometer.accounting.convolution.grid import UnitLosses, unit_losses
from epsilometer.accounting.convolution.spectrum import Summand, spectrum
from epsilometer.accounting.convolution.tilted import TiltedLaw, window

Array = NDArray[np.float64]
EPSILON = 0.8
P = np.array([0.3 * math.exp(EPSILON), 0.0, 0.3]) / (0.3 * math.exp(EPSILON) + 0.7)
P[1] = 1 - P.sum()
LAWS = np.log(np.stack([P, P[::-1]]))  # losses of 0.8, 0 and -0.8, which are grid points of a step of 0.2
COIN = 0.4  # a draw without it has no loss
TRIALS = 1000
RIGHT = np.arange(TRIALS + 1)


def tilted(unit: UnitLosses, count: int, theta: float, coin: float = 1.0) -> TiltedLaw:
    """The law of the sum of `count` draws, each of the unit's losses with probability `coin`, else 0."""
    losses = unit.places * unit.step

    def log_moments(tilt: float) -> tuple[float, float]:
        shown = math.log(coin) + float(np.logaddexp.reduce(unit.log_weights + tilt * losses))
        return shown, float(np.logaddexp(shown, math.log1p(-coin) if coin < 1 else -math.inf))

    shown, total = log_moments(theta)
    shares = np.exp(unit.log_weights + theta * losses - shown + math.log(coin))
    deviation = math.sqrt(count * max(float(shares @ (losses - shares @ losses) ** 2), 1e-6))
    low, high = window(lambda tilt: count * log_moments(tilt)[1], theta, deviation, (-math.inf, math.inf))
    first = math.floor(low / unit.step)
    size = math.ceil(high / unit.step) - first + 1
    step = spectrum([Summand(unit.places, shares)], size)
    law, noise = step.steps(count, math.exp(shown - total)).law(first, size)
    return TiltedLaw(theta, count * total, step=unit.step, first=first, shares=law, noise=noise)


def excess(law: TiltedLaw, level: float) -> tuple[float, float]:
    """Both bounds on sum (P - e^level P')_+ on the grid."""
    values = law.excess(level)
    scale = math.exp(law.log_total + (0.5 - law.theta) * level)
    middle, error = float(law.shares @ values), law.error(values)
    return scale * max(0.0, middle - error), scale * (middle + error)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("theta", [0.2, 0.5, 2.0])
def test_the_excess_is_a_sum_over_all_outputs(count: int, theta: float) -> None:
    """Three outputs, and no output where the coin falls the other way: all sequences of up to five."""
    law = tilted(unit_losses(*LAWS, EPSILON / 4), count, theta, COIN)
    p, q = (np.append(COIN * np.exp(row), 1 - COIN) for row in LAWS)
    both = [(np.prod(p[list(y)]), np.prod(q[list(y)])) for y in itertools.product(range(4), repeat=count)]
    for level in (0.0, 0.1, 0.8, 1.7):
        true = sum(max(0.0, float(a - math.exp(level) * b)) for a, b in both)
        low, high = excess(law, level)
        assert low - 1e-15 <= true <= high + 1e-15
        assert (low + high) / 2 == pytest.approx(true, rel=1e-12, abs=1e-13)


def coins(epsilon: float, level: float) -> float:
    """ln delta at a level of randomised response that is asked 1,000 times, by the binomial law."""
    loss = epsilon * (2.0 * RIGHT - TRIALS)
    above = loss > level
    logs = binom.logpmf(RIGHT, TRIALS, 1 / (1 + math.exp(-epsilon)))[above]
    return float(np.logaddexp.reduce(logs + np.log(-np.expm1(level - loss[above]))))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-9, 1e-30])
def test_epsilon_of_many_coins_has_a_closed_form(epsilon: float, delta: float) -> None:
    coin = np.array([epsilon, 0.0]) - np.logaddexp(epsilon, 0)
    true = brentq(lambda level: coins(epsilon, level) - math.log(delta), 0, TRIALS * epsilon * (1 - 1e-9), xtol=1e-13)
    theta = max(0.6, math.atanh(true / (TRIALS * epsilon)) / epsilon)  # puts the mean loss at the level
    law = tilted(unit_losses(coin, coin[::-1], epsilon / 4), TRIALS, theta)
    below, above = law.epsilon(delta, -1), law.epsilon(delta, 1)
    assert below <= true * (1 + 1e-12) + 1e-12
    assert true <= above * (1 + 1e-12) + 1e-12
    assert above - below <= 1e-6 * max(1.0, true)


def laplace(cells: int) -> Array:
    """The log-laws [2, cells] of Laplace noise of scale 1 about 0 and 1, in cells between which the loss changes."""
    ends = np.concatenate([[-math.inf], np.linspace(0, 1, cells - 1), [math.inf]])

    def below(x: Array) -> Array:
        return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)

    return np.log(np.stack([np.diff(below(ends)), np.diff(below(ends - 1))]))


def of_one(level: float) -> float:
    """delta at any level of one draw of Laplace noise, whose loss is 1 - 2x between 0 and 1."""
    return -math.expm1(level) if level <= -1 else max(0.0, -math.expm1((level - 1) / 2))


def test_two_draws_of_laplace_noise_have_an_integral() -> None:
    """delta of two is the mean, over the loss of the first, of delta of one at what is left of the level."""
    unit = unit_losses(*laplace(20_001), 1e-4)
    for level in (0.0, 0.5, 1.9):
        ends = 0.5 * of_one(level - 1) + 0.5 * math.exp(-1) * of_one(level + 1)
        breaks = [x for x in (level / 2, 1 - level / 2) if 0 < x < 1]
        true = ends + quad(lambda x, a=level: math.exp(-x) / 2 * of_one(a - 1 + 2 * x), 0, 1, points=breaks)[0]
        low, high = excess(tilted(unit, 2, 0.5), level)
        # Cells hide some of the loss, and the grid adds some, both of the order of the squared width.
        assert low - 1e-6 <= true <= high + 1e-6
    assert excess(tilted(unit, 1, 0.5), 0.3)[0] == pytest.approx(of_one(0.3), abs=1e-6)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_shares_are_those_of_direct_convolution(count: int) -> None:
    rng = np.random.default_rng(count)
    unit = unit_losses(*np.log(rng.dirichlet(np.ones(30), 2)), 0.1)
    law = tilted(unit, count, 0.9)
    shares = np.zeros(int(unit.places[-1] - unit.places[0]) + 1)
    shares[unit.places - unit.places[0]] = np.exp(unit.log_weights + 0.9 * unit.places * unit.step)
    shares /= shares.sum()
    direct = np.ones(1)
    for _ in range(count):
        direct = np.convolve(direct, shares)
    start = count * int(unit.places[0]) - law.first
    inside = slice(max(0, start), min(start + len(direct), len(law.shares)))
    np.testing.assert_allclose(law.shares[inside], direct[inside.start - start : inside.stop - start], atol=1e-14)
    assert float(np.linalg.norm(law.shares[inside] - direct[inside.start - start : inside.stop - start])) <= law.noise


def test_epsilon_is_the_level_of_its_excess() -> None:
    """Between two grid points too; the two bounds of the excess at it enclose delta."""
    rng = np.random.default_rng(0)
    unit = unit_losses(*np.log(rng.dirichlet(np.ones(30), 2)), 0.1)
    law = tilted(unit, 20, 1.0)
    for delta in np.geomspace(1e-6, 0.5, 13):
        below, above = law.epsilon(delta, -1), law.epsilon(delta, 1)
        assert 0 < below <= above
        assert excess(law, above)[0] <= delta <= excess(law, below)[1]
        assert sum(excess(law, (below + above) / 2)) / 2 == pytest.approx(delta, rel=1e-8)
