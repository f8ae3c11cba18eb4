"""Brackets of the exact epsilon agree with closed forms, known values, each other, and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from epsilometer.accounting.dominating_pairs import Added, FromUniform, Opposite, Pair, Removed, Replaced, ToUniform
from epsilometer.accounting.loss_distribution import EpsilonBracket, bracket
from epsilometer.accounting.steps import Step
from epsilometer.core.von_mises_fisher import quadrature
from epsilometer.mechanisms.latents.shared.noise import gaussian_log_delta


def sampled(sigma: float, rate: float) -> list[Step]:
    return [Step((Removed(sigma, rate),)), Step((Added(sigma, rate),))]


def exact_gaussian(scale: float, delta: float) -> float:
    """The epsilon at delta of the exact profile, for sigma over sensitivity."""
    return brentq(lambda epsilon: gaussian_log_delta(epsilon, scale) - math.log(delta), 0, 1e7)


@pytest.mark.parametrize("sigma", [0.003, 0.05, 1.0, 30.0])
@pytest.mark.parametrize(("steps", "delta"), [(1, 1e-5), (30, 1e-10)])
def test_at_rate_one_it_is_the_exact_gaussian_profile(sigma: float, steps: int, delta: float) -> None:
    """T releases of noise sigma are one of noise sigma / sqrt(T); a replaced vector has twice the sensitivity."""
    for pair, scale in ((Removed(sigma, 1.0), sigma), (Added(sigma, 1.0), sigma), (Replaced(sigma, 1.0), sigma / 2)):
        result = bracket([Step((pair,))], steps, delta)
        truth = exact_gaussian(scale / math.sqrt(steps), delta)
        assert result.lower <= truth <= result.upper
        assert result.upper == pytest.approx(truth, rel=2e-3, abs=1e-3)
        assert result.upper - result.lower <= 0.01 * max(1, truth)


# From other loss-distribution accountants, to the digits shown, for the published settings of six trainings.
KNOWN = [
    (1.0, 1 / 420, 4200, 1 / 53_710, 0.7454),
    (3.06, 1 / 40, 1200, 1 / 5_056, 0.8714),
    (0.46, 1 / 176, 528, 1 / 22_500, 8.142),
    (0.234, 1 / 420, 2520, 1 / 53_710, 89.11),
    (0.127, 1 / 420, 2520, 1 / 53_710, 477.8),
]


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta", "exact"), KNOWN)
def test_brackets_contain_what_others_computed(
    sigma: float, rate: float, steps: int, delta: float, exact: float
) -> None:
    result = bracket(sampled(sigma, rate), steps, delta)
    assert result.lower <= exact * 1.001
    assert result.upper >= exact * 0.999
    assert result.upper == pytest.approx(exact, rel=2e-3)
    assert result.upper - result.lower <= 0.01 * max(1, exact)


@pytest.mark.parametrize(
    ("directions", "steps", "delta"),
    [
        (sampled(0.46, 1 / 176), 528, 1 / 22_500),
        (sampled(0.1, 1 / 40), 400, 1e-12),
        ([Step((Replaced(1.0, 1 / 40),))], 400, 1e-4),
        ([Step((Opposite(1e4, 592_130),))], 10, 1 / 5_056),
        ([Step((Opposite(1e3, 592_130), Opposite(1e3, 1_538)), 1 / 40)], 400, 1 / 5_056),
    ],
)
def test_finer_brackets_lie_within_coarser_ones(directions: list[Step], steps: int, delta: float) -> None:
    coarse, fine = bracket(directions, steps, delta), bracket(directions, steps, delta, width=0.002)
    slack = 1e-5 * coarse.upper  # a margin of delta for rounding errors
    assert coarse.lower - slack <= fine.lower <= fine.upper <= coarse.upper + slack
    assert fine.upper - fine.lower <= 0.002 * max(1, fine.upper)


def test_from_a_hundredth_to_a_hundred_thousand() -> None:
    """The range of epsilons that is promised, each at most 1 % or 0.01 wide."""
    for sigma, rate, steps, low, high in (
        (20.0, 1e-3, 10_000, 0.005, 0.03), (0.1, 1 / 40, 400, 1000, 1300),
        (0.018, 1 / 40, 1200, 8e4, 9e4), (0.0145, 1 / 40, 1200, 1.2e5, 1.4e5),
    ):  # fmt: skip
        result = bracket(sampled(sigma, rate), steps, 1e-5)
        assert low < result.lower <= result.upper < high
        assert result.upper - result.lower <= 0.01 * max(1, result.upper)


def by_draws(pair: Pair, losses: np.ndarray, steps: int, epsilon: float) -> tuple[float, float]:
    """The mean of (1 - e^(eps - S))^+ over drawn sums of `steps` losses, and five standard errors."""
    sums = losses[: len(losses) // steps * steps].reshape(-1, steps).sum(axis=1)
    shares = np.maximum(-np.expm1(epsilon - sums), 0)
    return float(shares.mean()), 5 * float(shares.std()) / math.sqrt(len(shares))


def test_against_drawn_losses() -> None:
    """delta at the bracket's ends, by draws of the losses: five standard errors, a false alarm in some 10^5 runs."""
    rng = np.random.default_rng(1)
    mixed = rng.normal(size=600_000) + (rng.random(600_000) < 0.1)
    replaced, added = Replaced(1.0, 0.1), Added(1.0, 0.1)
    cosines, weights = quadrature(30.0, 20)
    sample = rng.choice(cosines, 600_000, p=weights)
    for pair, losses in (
        (Removed(1.0, 0.1), Removed(1.0, 0.1).loss(mixed)),
        (replaced, replaced.loss(mixed)),
        (added, added.loss(rng.normal(size=600_000))),
        (Opposite(30.0, 20), 60 * sample),
    ):
        steps, delta = 6, 1e-2
        ends = bracket([Step((pair,))], steps, delta)
        for epsilon, sign in ((ends.upper, -1), (ends.lower, 1)):
            mean, error = by_draws(pair, losses, steps, epsilon)
            assert sign * (mean - delta) > -error


def test_directional_draws_in_three_dimensions_in_closed_form() -> None:
    """The cosine's density is kappa e^(kappa w) / (2 sinh kappa), and its CDF an exponential."""
    kappa, delta = 2.0, 1e-3

    def exact(epsilon: float) -> float:
        half = epsilon / 2  # P(L > eps) - e^eps P(-L > eps), by the law's CDF
        over = (math.exp(kappa) - math.exp(half)) / (2 * math.sinh(kappa))
        return over - math.exp(epsilon) * (math.exp(-half) - math.exp(-kappa)) / (2 * math.sinh(kappa))

    truth = brentq(lambda epsilon: exact(epsilon) - delta, 0, 2 * kappa - 1e-9)
    result = bracket([Step((Opposite(kappa, 3),))], 1, delta, width=0.001)
    assert result.lower <= truth <= result.upper
    assert result.upper == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize(
    ("kappa", "dimension", "passes", "exact"),
    [
        (100, 592_130, 1, 0.76), (100, 592_130, 10, 2.9), (1e3, 592_130, 1, 12), (1e3, 592_130, 10, 62),
        (1e4, 592_130, 1, 429), (1e4, 592_130, 10, 3_667), (1e5, 592_130, 1, 33_750), (1e5, 592_130, 10, 331_400),
        (10, 3_072, 1, 1.10), (10, 3_072, 30, 8.4), (100, 3_072, 1, 18.5), (100, 3_072, 30, 264),
    ],
)  # fmt: skip
def test_directional_draws_at_the_sizes_of_heads(kappa: float, dimension: int, passes: int, exact: float) -> None:
    result = bracket([Step((Opposite(kappa, dimension),))], passes, 1 / 5_056)
    assert result.upper == pytest.approx(exact, rel=0.015)
    assert result.upper - result.lower <= 0.01 * max(1, result.upper)


@pytest.mark.parametrize("kappa", [1e-3, 1.0, 1e9])
@pytest.mark.parametrize("dimension", [2, 3_072, 10**8])
def test_directional_brackets_at_the_ends_of_the_range(kappa: float, dimension: int) -> None:
    """No finite loss exceeds 2 kappa a pass; where kappa is far above d, draws hide next to nothing of it."""
    result = bracket([Step((Opposite(kappa, dimension),))], 3, 1e-4)
    assert 0 <= result.lower <= result.upper <= 6 * kappa
    assert result.upper - result.lower <= 0.01 * max(1, result.upper)
    if kappa > 1e3 * dimension:
        assert result.lower > 5.9 * kappa


def test_the_uniform_draw_lies_between() -> None:
    """To lose an example to the uniform draw costs less than to have it replaced, in both directions."""
    opposite = bracket([Step((Opposite(50.0, 100),))], 4, 1e-4)
    for pair in (ToUniform(50.0, 100), FromUniform(50.0, 100)):
        half = bracket([Step((pair,))], 4, 1e-4)
        assert 0 < half.lower <= half.upper < opposite.lower


def test_what_losses_end_at_bounds_the_bracket() -> None:
    """At a tiny delta the exact epsilon is nearly the pure loss, never above it; what is not resolved is wide."""
    step = Step((Opposite(5.0, 3),))
    result = bracket([step], 2, 1e-12)
    assert 19.999 < result.lower <= result.upper < 20
    assert bracket([step], 2, 1e-200) == EpsilonBracket(0.0, pytest.approx(20, abs=1e-9))


def test_a_coin_that_shows_hides_in_one_step_only_its_share() -> None:
    """With T = 1 and coin q, delta is q times that of the pair: the epsilon at delta is the pair's at delta / q."""
    pair = Opposite(1e3, 592_130)
    shown = bracket([Step((pair,), 0.1)], 1, 1e-4, width=0.001)
    alone = bracket([Step((pair,))], 1, 1e-3, width=0.001)
    assert shown.upper == pytest.approx(alone.upper, rel=1e-3)


@pytest.mark.parametrize(
    "pair",
    [
        Removed(0.5, 0.1), Removed(0.5, 1.0), Added(0.5, 0.1), Replaced(0.5, 0.1), Replaced(0.02, 0.1),
        Replaced(0.5, 1.0), Opposite(40.0, 12), ToUniform(40.0, 12), FromUniform(40.0, 12),
    ],
    ids=str,
)  # fmt: skip
def test_places_invert_losses_and_laws_have_mass_one(pair: Pair) -> None:
    for low, high in pair.spans(1e-3):
        x = np.linspace(low, high, 41)[1:-1]
        losses = pair.loss(x)
        assert (np.diff(losses) >= 0).all()
        seen = np.abs(losses - losses[0]) > 1e-6  # near its minimum, the loss hardly distinguishes outputs
        assert pair.place(losses[seen]) == pytest.approx(x[seen], rel=1e-6, abs=1e-7)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    masses = [
        (high - low) / 2 * weights @ np.exp(pair.log_density(low + (high - low) * (nodes + 1) / 2))
        for low, high in pair.spans(1e-12)
    ]
    assert sum(masses) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("there", "back"),
    [(Removed(0.7, 0.2), Added(0.7, 0.2)), (Replaced(0.7, 0.2), Replaced(0.7, 0.2)),
     (ToUniform(8.0, 6), FromUniform(8.0, 6)), (Opposite(8.0, 6), Opposite(8.0, 6))],
    ids=str,
)  # fmt: skip
def test_one_direction_is_the_other_reweighed(there: Pair, back: Pair) -> None:
    """E_P e^-L f(-L) = E_P' f(L): the two directions of a pair are the same two laws."""

    def mean(pair: Pair, of: object) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(600)
        total = 0.0
        for low, high in pair.spans(1e-14):
            x = low + (high - low) * (nodes + 1) / 2
            total += (high - low) / 2 * weights @ (np.exp(pair.log_density(x)) * of(pair.loss(x)))  # type: ignore[operator]
        return total

    for f in (np.tanh, lambda loss: np.exp(-(loss**2))):
        reweighed = mean(there, lambda loss, f=f: np.exp(-loss) * f(-loss))
        assert reweighed == pytest.approx(mean(back, f), abs=1e-8)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [
        (0.027, 0.0309, 189, 3.3e-11),
        (0.0145, 0.293, 2, 8.2e-14),
        (0.015, 4.6e-4, 3_188, 1.8e-11),
        (0.02, 0.45, 3_000, 1e-9),
    ],
)
def test_losses_in_clusters_far_apart(sigma: float, rate: float, steps: int, delta: float) -> None:
    """Little noise: the sum is a number of hits times 1 / 2 sigma^2. Bounded by taking all hits as seen."""
    result = bracket(sampled(sigma, rate), steps, delta)
    assert result.upper - result.lower <= 0.01 * result.upper
    hits = int(binom.isf(delta / 2, steps, rate))
    seen = exact_gaussian(sigma / math.sqrt(hits), delta / 2)  # `hits` hits in one release, with the rest of delta
    assert 0.5 * seen < result.lower < result.upper < seen


def test_an_example_that_is_seldom_missing() -> None:
    """The direction of an added example has no loss above -ln(1 - q) a step, reached in nearly every output."""
    result = bracket([Step((Added(0.0145, 0.293),))], 2, 1e-9)
    truth = -2 * math.log1p(-0.293)
    assert result.lower <= truth <= result.upper == pytest.approx(truth, abs=0.01)
