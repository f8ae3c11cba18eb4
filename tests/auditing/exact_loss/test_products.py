"""Products of laws against sums over all outputs."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from scipy.stats import binom

from epsilometer.accounting.convolution import grid
from epsilometer.accounting.convolution.grid import unit_losses
from epsilometer.auditing.exact_loss import products
from epsilometer.auditing.exact_loss.by_laws import product as of_laws
from epsilometer.auditing.exact_loss.products import Product
from tests.support.refusals import refused

Array = NDArray[np.float64]
LEVELS = np.array([0.0, 0.1, 0.5, 1, 2, 4, 8, 16])
# Two texts whose delta at some level depends on such large losses that the tilt's scale overflows a float.
TILTED_FAR = (
    log_softmax(30 * np.array([[0.0, -0.25, 0.0], [0.0, -1.0, -math.inf]]), axis=1),
    log_softmax(30 * np.array([[0.0, 0.0, -1.0], [-math.inf, 0.75, 0.0]]), axis=1),
)
EXACTLY = 1e-12  # relative rounding error of floating-point sums


@st.composite
def two_texts(draw: st.DrawFn) -> tuple[Array, Array]:
    """The log-laws [units, outputs] of two texts of at most 4 units over at most 5 outputs, zeros included."""
    units, outputs = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    scale = draw(st.sampled_from([0.01, 0.3, 1.0, 5.0, 30.0]))
    weights = st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 0.0, 1.0, -math.inf]))
    rows = st.lists(weights, min_size=outputs, max_size=outputs).filter(lambda row: max(row) > -math.inf)
    laws = st.lists(rows, min_size=units, max_size=units).map(lambda r: log_softmax(scale * np.array(r), axis=1))
    return draw(laws), draw(laws)


def enumerated(log_laws: Array) -> Array:
    """The log-probability of every output of all units together."""
    return np.array([sum(row) for row in product(*log_laws)])


def pair(first: Array, second: Array, step: float = 0.01) -> Product:
    return Product([unit_losses(a, b, step) for a, b in zip(first, second, strict=True)])


def holds(low: Any, true: Any, high: Any) -> bool:
    return bool(np.all(low <= true * (1 + EXACTLY) + 1e-300) and np.all(true * (1 - EXACTLY) - 1e-300 <= high))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(two_texts())
def test_every_figure_brackets_the_sum_over_all_outputs(texts: tuple[Array, Array]) -> None:
    first, second = (enumerated(text) for text in texts)
    p, q = np.exp(first), np.exp(second)
    distribution = pair(*texts)
    error, log_error = np.minimum(p, q).sum() / 2, distribution.log_error()
    assert holds(math.exp(log_error.low), error, math.exp(log_error.high))
    assert log_error.high == -math.inf or log_error.high - log_error.low <= (len(texts[0]) + 1) ** 2 * 0.01 / 2
    true = np.array([np.maximum(p - math.exp(level) * q, 0).sum() for level in LEVELS])
    together = distribution.deltas(LEVELS)
    assert np.all(together.low <= true + 1e-15)
    assert np.all(true - 1e-15 <= together.high)
    for level, delta in zip(LEVELS, true, strict=True):
        alone = distribution.delta(level)
        # The reference subtracts numbers up to 1, so it is exact to some 1e-16 alone.
        assert alone.low - 1e-15 <= delta * (1 + EXACTLY)
        assert delta * (1 - EXACTLY) - 1e-15 <= alone.high
    with np.errstate(invalid="ignore"):
        loss = np.where(p > 0, first - second, -np.inf)
    assert distribution.pure_loss == loss.max() or abs(distribution.pure_loss - loss.max()) < 1e-9
    order = np.argsort(-loss, kind="stable")
    rates = np.array([0.01, 0.1, 0.5])
    power = np.interp(rates, np.append(0, np.cumsum(q[order])), np.append(0, np.cumsum(p[order])))
    bracket = distribution.power(rates)
    assert np.all(bracket.low <= power + 1e-9)
    assert np.all(power <= bracket.high + 1e-9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(two_texts())
@example(TILTED_FAR)
def test_grids_that_had_to_become_coarser_bracket_it_too(texts: tuple[Array, Array]) -> None:
    """With room for few points and products, both with FFT and without."""
    p, q = (np.exp(enumerated(text)) for text in texts)
    error, deltas = np.minimum(p, q).sum() / 2, [np.maximum(p - math.exp(x) * q, 0).sum() for x in LEVELS]
    for few in (0.0, math.inf):  # limits for convolution without FFT: never at first, or always
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (("_WINDOW", 40), ("_PRODUCTS", 2000), ("_FEW", few)):
                patch.setattr(products, name, value)
            distribution = pair(*texts)
            log_error = distribution.log_error()
            assert holds(math.exp(log_error.low), error, math.exp(log_error.high))
            for level, delta in zip(LEVELS, deltas, strict=True):
                bracket = distribution.delta(level)
                assert bracket.low - 1e-13 <= delta <= bracket.high + 1e-13
            curve = distribution.deltas(LEVELS)
            assert np.all(curve.low - 1e-13 <= deltas)
            assert np.all(deltas <= curve.high + 1e-13)


def test_losses_of_millions_keep_a_bracket() -> None:
    first, second = random_pair(5, 300, 3e5)
    distribution = of_laws(np.concatenate([first, second]), np.array([(i, 5 + i) for i in range(5)]))
    error = distribution.log_error()
    assert -1e6 < error.low < error.high < -1e3
    # Bhattacharyya's bounds of the same error.
    log_rho = float(np.logaddexp.reduce((first + second) / 2, axis=1).sum())
    assert error.low <= log_rho - math.log(2)
    assert error.high >= 2 * log_rho - math.log(4) - 1e-9


def random_pair(units: int, outputs: int, scale: float, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    first, second = log_softmax(scale * rng.uniform(size=(2, units, outputs)), axis=2)
    return first, second


@pytest.mark.parametrize("scale", [30.0, 100.0, 1000.0, 10_000.0])
def test_losses_that_lie_in_clumps_far_from_zero_keep_a_bracket(scale: float) -> None:
    """Where the error is decided, near 0, lie numbers that are too small for a float beside the others."""
    first = log_softmax(scale * np.array([[0, -2.0, -1.0], [0, -1.7, -2.1], [-0.9, 0, -2.2]]), axis=1)
    second = log_softmax(scale * np.array([[-2.0, 0, -1.3], [-1.1, 0, -0.8], [0, -1.9, -2.5]]), axis=1)
    p, q = enumerated(first), enumerated(second)
    true, log_rho = float(logsumexp(np.minimum(p, q))) - math.log(2), float(logsumexp((p + q) / 2))
    product = pair(first, second)
    bracket = product.log_error()
    assert bracket.low * (1 + EXACTLY) <= true <= bracket.high * (1 - EXACTLY)
    assert (bracket.high - bracket.low < 1) == (log_rho > -300)
    delta = product.delta(2.0)
    assert delta.low <= -math.expm1(true + 1) <= delta.high == 1
    assert delta.low >= 1 - math.exp(log_rho + 1.1)


def test_coarse_grids_bracket_a_fine_one() -> None:
    first, second = random_pair(8, 200, 20.0)
    fine = pair(first, second, 1e-3)
    for step in (0.1, 0.03, 0.01):
        coarse = pair(first, second, step)
        assert coarse.log_error().low <= fine.log_error().low < fine.log_error().high <= coarse.log_error().high
        for level in (0.0, 3.0, 30.0):
            assert (
                coarse.delta(level).low <= fine.delta(level).low <= fine.delta(level).high <= coarse.delta(level).high
            )


@pytest.mark.parametrize("units", [40, 300])
def test_a_delta_far_below_what_an_fft_can_hold_keeps_its_digits(units: int) -> None:
    """Against the binomial sum of so many coins of randomised response, by a product of sums and by FFT."""
    epsilon = 0.5
    coin = np.array([epsilon, 0.0]) - np.logaddexp(epsilon, 0)
    distribution = Product([unit_losses(coin, coin[::-1], epsilon / 4)] * units)
    right = np.arange(units + 1)
    loss = epsilon * (2 * right - units)
    log_p = binom.logpmf(right, units, math.exp(coin[0]))
    for level in (0.9 * distribution.pure_loss, distribution.pure_loss - 0.1):
        above = loss > level
        true = logsumexp(log_p[above] + np.log1p(-np.exp(level - loss[above])))
        delta = distribution.delta(level)
        assert true < -15
        assert math.log(delta.low) - 1e-7 <= true <= math.log(delta.high) + 1e-7
        assert math.log(delta.high / delta.low) < 1e-6


def test_a_longer_text_is_told_apart_more_easily() -> None:
    """Monotone: a word more can be ignored by who guesses."""
    first, second = random_pair(6, 50, 6.0)
    texts = [
        of_laws(np.concatenate([first, second]), np.array([(i, 6 + i) for i in range(n)]), 0.001) for n in range(7)
    ]
    errors = [text.log_error() for text in texts]
    assert all(more.low <= less.high for less, more in pairwise(errors))
    assert errors[6].high < errors[0].low - 1
    deltas = [text.deltas(LEVELS) for text in texts]
    assert all(np.all(less.low <= more.high) for less, more in pairwise(deltas))
    losses = [text.pure_loss for text in texts]
    assert losses == sorted(losses)


def test_randomised_response_is_not_rounded() -> None:
    for epsilon in (0.1, 1.0, 7.0, 30.0):
        laws = np.array([[epsilon, 0.0], [0.0, epsilon]]) - np.logaddexp(epsilon, 0)
        distribution = of_laws(laws, np.array([[0, 1]]), 0.02)
        error = distribution.log_error()
        for end in (error.low, error.high):
            assert abs(math.log1p(-math.exp(end)) - end - epsilon) < 1e-9
        assert abs(distribution.pure_loss - epsilon) < 1e-9


@pytest.mark.parametrize("units", [1, 2, 5])
@pytest.mark.parametrize("coarser", [1, 64])
def test_no_mass_is_lost_where_most_outputs_are_likely_under_one_text_alone(units: int, coarser: int) -> None:
    """An output both laws share outweighs, by e^990, sqrt(P P') of the outputs that have nearly all of the mass."""
    shared, never = -10.0, -2000.0
    most = math.log1p(-math.exp(shared))
    first, second = np.array([[most, never, shared]] * units), np.array([[never, most, shared]] * units)
    for distribution in (pair(first, second, 1.0), pair(second, first, 1.0)):
        distribution = Product([unit.coarser(coarser) for unit in distribution.units])
        for unit in distribution.units:
            for sign in (0.5, -0.5):  # the masses of P and P' on the grid
                mass = logsumexp(unit.log_weights + sign * unit.places * unit.step)
                assert mass == pytest.approx(0.0, abs=1e-9)
        true = -math.expm1(units * shared)  # 1 - P(the shared output in every unit), up to e^-2000
        error, curve = distribution.log_error(), distribution.deltas(np.array([0.0, 8.0, 500.0]))
        assert np.all(curve.low <= true + 1e-9)
        assert np.all(true - 1e-9 <= curve.high)
        assert curve.high[0] >= 1 - 2 * math.exp(error.high) - 1e-9
        assert curve.low[0] <= 1 - 2 * math.exp(error.low) + 1e-9


def test_texts_with_no_output_in_common() -> None:
    with np.errstate(divide="ignore"):
        distribution = pair(np.log([[1.0, 0.0]]), np.log([[0.0, 1.0]]))
    assert distribution.log_error().high == -math.inf
    assert distribution.pure_loss == math.inf
    assert distribution.delta(100.0).low == 1


def test_an_output_of_one_text_alone_loses_without_bound_however_rare() -> None:
    """e^-800 is 0 as a number."""
    with np.errstate(divide="ignore"):
        first, second = np.array([math.log(0.5), math.log(0.5), -800.0]), np.log([0.4, 0.6, 0.0])
    assert pair(first[None], second[None]).pure_loss == math.inf
    assert pair(second[None], first[None]).pure_loss == pytest.approx(math.log(1.2))
    assert pair(second[None], first[None]).reversed.pure_loss == math.inf


def test_curves_keep_their_bracket_at_levels_that_overflow() -> None:
    """Losses of 861.5 nats: both e^861 and e^-861 are beyond a float."""
    first, second = np.array([[0.0, -861.7]]), np.array([[-861.5, 0.0]])
    levels = np.array([500.0, 650.0, 724.08, 861.08, 1024.0])
    true = -np.expm1(np.minimum(levels - 861.5, 0.0))
    bracket = pair(first, second, 0.5).deltas(levels)
    assert np.all(bracket.low <= true + 1e-12)
    assert np.all(true <= bracket.high + 1e-12)
    assert bracket.low[1] > 0.99


def test_losses_beyond_any_grid_are_refused_in_words() -> None:
    with refused("EPS-A081"):
        pair(np.array([[0.0, -1e6]]), np.array([[-1e6, 0.0]]), 2000.0)
    assert of_laws(np.array([[0.0, -1e6], [-1e6, 0.0]]), np.array([[0, 1]])).certain


@pytest.mark.parametrize(("scale", "units", "step"), [(0.3, 1, 1e-3), (6.0, 3, 0.01), (100.0, 2, 0.05)])
def test_masses_summed_as_they_are_give_the_figures_of_scaled_ones(scale: float, units: int, step: float) -> None:
    """As they are, by exponentials that were there already, and each place in the scale of its largest weight."""
    first, second = random_pair(units, 3_000, scale)
    own = pair(first, second, step)
    passed = Product([unit_losses(a, b, step, (np.exp(a), np.exp(b))) for a, b in zip(first, second, strict=True)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "_ONE_SCALE", 0.0)
        scaled = pair(first, second, step)
    assert passed.log_error() == own.log_error()
    for figures in (lambda p: p.log_error(), lambda p: p.delta(1.5), lambda p: p.deltas(LEVELS)):
        np.testing.assert_allclose(figures(own).low, figures(scaled).low, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(figures(own).high, figures(scaled).high, rtol=1e-12, atol=1e-15)
