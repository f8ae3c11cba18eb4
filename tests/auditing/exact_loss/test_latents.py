"""Losses under noise on latents agree with quadrature, a fine grid, draws, and the claims of all latent mechanisms."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from epsilometer.accounting.convolution.grid import unit_losses
from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED
from epsilometer.auditing.exact_loss import laplace
from epsilometer.auditing.exact_loss.latents import gaussian, losses
from epsilometer.auditing.exact_loss.losses import LEVELS, Request
from epsilometer.auditing.exact_loss.measuring import measure
from epsilometer.auditing.exact_loss.pairs import Pairs
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.mechanisms.latents.adept import ADePT
from epsilometer.mechanisms.latents.dp_bart import DPBART
from tests.support.refusals import refused

Array = NDArray[np.float64]


@pytest.mark.parametrize("distance", [0.01, 1.0, 6.0, 40.0])
def test_gaussian_noise_against_integration(distance: float) -> None:
    """On 400,001 points of the line through both latents, by Simpson's rule and in logarithms."""
    x = np.linspace(-12, distance + 12, 400_001)
    log_p, log_q = (-((x - centre) ** 2) / 2 - math.log(2 * math.pi) / 2 for centre in (distance, 0.0))
    weights = np.where(np.arange(len(x)) % 2, 4, 2) * (x[1] - x[0]) / 3

    def integral(log_values: Array) -> float:
        return float(np.logaddexp.reduce(log_values + np.log(weights)))

    bracket = gaussian(np.array([distance]), np.array([2.0]))
    assert bracket.log_error.low == pytest.approx(integral(np.minimum(log_p, log_q)) - math.log(2), abs=2e-6)
    with np.errstate(divide="ignore"):
        for level, delta in zip(LEVELS[:60:6], bracket.delta.high[0, :60:6], strict=True):
            excess = integral(np.log(np.maximum(np.exp(log_p) - np.exp(level + log_q), 0)))
            assert delta == pytest.approx(math.exp(excess), abs=1e-7)
    assert bracket.delta_at_claim is not None
    assert bracket.delta_at_claim.high[0] == pytest.approx(np.interp(2.0, LEVELS, bracket.delta.high[0]), abs=1e-9)


def test_equal_and_nearly_equal_latents_lose_nothing() -> None:
    bracket = gaussian(np.array([0.0, 1e-14]), np.array([1.0, math.inf]))
    assert bracket.log_error.high == pytest.approx(math.log(0.5), abs=1e-12)
    assert bracket.delta.high.max() < 1e-9
    assert bracket.pure is not None
    assert bracket.pure.tolist() == [0.0, math.inf]
    assert bracket.delta_at_claim is not None
    assert bracket.delta_at_claim.high.tolist() == [0.0, 1.0]
    assert laplace.log_overlap(np.zeros(3), 1e-3).low == 0
    assert laplace.deltas(np.zeros(3), LEVELS, 1e-3).high.max() == 0


def by_quadrature(distances: Array, level: float, points: int = 400) -> float:
    """delta(level) of up to three coordinates: the last one's in closed form, averaged over the others' losses."""
    last = float(distances[-1])
    nodes, weights = np.polynomial.legendre.leggauss(points)
    rest, chance = np.zeros(1), np.ones(1)
    for t in distances[:-1]:
        losses = np.concatenate([[t, -t], t * nodes])
        shares = np.concatenate([[0.5, math.exp(-t) / 2], weights * t * np.exp((t * nodes - t) / 2) / 4])
        rest, chance = np.add.outer(rest, losses).ravel(), np.multiply.outer(chance, shares).ravel()
    at = level - rest
    inside = -np.expm1((np.clip(at, -last, last) - last) / 2)  # 1 - e^((x - t) / 2)
    return float(chance @ np.where(at < -last, -np.expm1(np.minimum(at, 0)), inside))


@pytest.mark.parametrize(
    "distances", [[0.05], [2.0], [30.0], [0.7, 1.9], [12.0, 0.3], [0.5, 1.0, 3.0], [4.0, 4.0, 0.1]]
)
def test_laplace_noise_against_quadrature(distances: list[float]) -> None:
    """Quadrature errs by less than 2e-6: its integrand has kinks, and no transform."""
    t, levels = np.array(distances), np.array([0.0, 0.3, 1.0, 0.9 * sum(distances)])
    truths = np.array([by_quadrature(t, level) for level in levels])
    overlap = laplace.log_overlap(t, 1e-3)
    assert math.exp(overlap.low) - 2e-6 <= 1 - truths[0] <= math.exp(overlap.high) + 2e-6
    assert 0 < overlap.high - overlap.low < 4e-3
    curve = laplace.deltas(t, levels, 1e-4)
    assert (curve.low - 2e-6 <= truths).all()
    assert (truths <= curve.high + 2e-6).all()
    assert (curve.high - curve.low).max() < 4e-4
    for level, truth in zip(levels, truths, strict=True):
        bracket = laplace.delta(t, level, 0.02)
        assert bracket.low - 2e-6 <= truth <= bracket.high + 2e-6
        assert bracket.high - bracket.low <= 0.2 * bracket.high
    assert laplace.delta(t, sum(distances) + 1e-9, 1e-3).high == 0


def on_a_grid(distances: Array, step: float) -> Product:
    """The same pair of laws, convolved on a grid, every coordinate in 1,000 cells between both latents."""
    units = []
    for t in distances:
        cells = np.linspace(0, t, 1001)
        log_p = np.log(np.concatenate([[1.0], np.exp(-cells[:-1]) - np.exp(-cells[1:]), [math.exp(-t)]]) / 2)
        units.append(unit_losses(log_p, log_p[::-1], step))
    return Product(units)


@pytest.mark.parametrize(("count", "size"), [(12, 0.05), (12, 1.0), (40, 3.0)])
def test_laplace_noise_by_its_transform_and_on_a_grid(count: int, size: float) -> None:
    """Two ways whose brackets both hold the truth have some value in common."""
    distances = size * np.random.default_rng(count).exponential(size=count)
    grid, overlap = on_a_grid(distances, size / 200), laplace.log_overlap(distances, 1e-4)
    error = grid.log_error()
    assert overlap.low - math.log(2) <= error.high + 1e-5
    assert error.low <= overlap.high - math.log(2) + 1e-5
    assert overlap.high - overlap.low < 1e-3
    levels = np.linspace(0, min(distances.sum(), 30.0), 12)
    other, curve = grid.deltas(levels), laplace.deltas(distances, levels, 1e-5)
    assert (curve.low <= other.high + 1e-5).all()
    assert (other.low <= curve.high + 1e-5).all()
    for level in levels[1::4]:  # tiny ones too
        by_transform, two = laplace.delta(distances, float(level), 1e-3), grid.delta(float(level))
        assert by_transform.low <= two.high * 1.001
        assert two.low <= by_transform.high * 1.001
        assert by_transform.high < 1.05 * by_transform.low


def test_many_small_coordinates_of_laplace_noise_act_as_gaussian_noise() -> None:
    """E L = sum t - 1 + e^-t, which is half of the squared distance of normals; the rest vanishes for small t."""
    distances = np.full(4096, 3.0 / 64)
    distance = math.sqrt(2 * (distances + np.expm1(-distances)).sum())
    (log_error,) = gaussian(np.array([distance]), np.array([math.inf])).log_error.low
    overlap = laplace.log_overlap(distances, 1e-4)
    assert overlap.high - math.log(2) == pytest.approx(log_error, abs=0.001)


def test_the_error_is_that_of_the_optimal_adversary_on_draws() -> None:
    """100,000 draws of five coordinates: outside of the binomial's bounds by chance once in 10^9."""
    rng, distances, count = np.random.default_rng(4), np.array([0.2, 0.5, 0.9, 1.4, 0.1]), 100_000
    noise = rng.laplace(size=(count, 5))
    wrong = int((np.abs(noise).sum(axis=1) > np.abs(noise - distances).sum(axis=1)).sum())
    error = math.exp(laplace.log_overlap(distances, 1e-5).low) / 2
    low, high = (stats.binom(count, error).ppf(share) for share in (5e-10, 1 - 5e-10))
    assert low <= wrong <= high


def test_noise_of_another_law_is_refused() -> None:
    other = SimpleNamespace(encode=lambda texts: np.zeros((len(texts), 2)), law=lambda epsilon: object())
    with refused("EPS-A088"):
        losses(Request(other, ["a", "b"], np.array([[0, 1]]), [1.0], claims=[np.ones(1)]))


CORNERS = np.array(list(itertools.product([-1e6, 1e6], repeat=4)))
TEXTS = [str(i) for i in range(len(CORNERS))]
PAIRS = np.array([(0, other) for other in (1, 6, 14, 15)])


def adept(**settings: Any) -> ADePT:
    mechanism = ADePT(resource="none", **settings)
    encode = lambda texts: CORNERS[[int(text) for text in texts]]  # noqa: E731
    mechanism.__dict__["_model"] = SimpleNamespace(encode=encode, width=4, shape=SimpleNamespace(clip=2.0))
    return mechanism


class Bart(DPBART):
    """Latents at the corners of the cube that states are clipped to."""

    def latents(self, texts: Any) -> NDArray[np.float32]:
        return CORNERS[[int(text) for text in texts]].clip(-self.bound, self.bound).astype(np.float32)


def bart(**settings: Any) -> Bart:
    mechanism = Bart(resource="none", length=2, **settings)
    mechanism.__dict__["dimensions"] = np.arange(2)
    return mechanism


@pytest.mark.parametrize(
    ("mechanism", "verdict"),
    [
        (adept(), NOT_REFUTED),
        (adept(noise="laplace"), NOT_REFUTED),
        (adept(noise="laplace", as_published=True), VIOLATED),
        (bart(), NOT_REFUTED),
        (bart(as_published=True), VIOLATED),
    ],
    ids=["adept", "adept-laplace", "adept-published", "dp_bart", "dp_bart-published"],
)
@pytest.mark.parametrize("epsilon", [10.0, 100.0])
def test_delta_at_the_claim_is_at_most_the_claimed_delta(mechanism: Any, verdict: str, epsilon: float) -> None:
    """Pairs of corners, the last of them as far apart as latents can be; the published forms exceed their claims."""
    pairs = Pairs(PAIRS, np.full(len(PAIRS), 1 / len(PAIRS)), np.ones(len(PAIRS), bool))
    table = measure(mechanism, TEXTS, [epsilon], pairs).losses
    claimed, delta = table["claimed_delta"][0], table["delta_at_claim"][0]
    assert table["verdict"].to_list() == [verdict, verdict]
    assert (delta > claimed) == (verdict == VIOLATED)
    assert table["sees"][0] == "latents"
    assert not table["released"].any()
    if verdict == NOT_REFUTED and claimed:
        assert delta > 0.99 * claimed  # calibrated to the last bit
    noise = mechanism.law(epsilon)
    if mechanism.__class__ is ADePT and mechanism.noise == "laplace":
        farthest = 2 * mechanism.norm * (1 - 2.0**-20) * 2  # |f - f'|_1 of opposite corners of the ball, n = 4
        assert table["relative_epsilon"][0] == pytest.approx(farthest / noise.scale, rel=2e-6)
    else:
        assert table["relative_epsilon"][0] == math.inf


def test_latents_that_lie_far_apart_are_told_apart_for_certain() -> None:
    """Where the sum over frequencies is all rounding: 768 coordinates of eight scales each."""
    bracket = laplace.deltas(np.full(768, 8.0), np.array([0.0, 4.0]), 1e-3)
    assert np.all(bracket.low > 1 - 1e-9)
    assert np.all(bracket.high == 1)
