"""Intervals by betting: their coverage after one look and after many, and their width."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from epsilometer.auditing.estimation import betting
from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import clopper_pearson
from tests.support.sparing import first

RUNS, ALPHA = 2000, 0.1
LAWS: dict[str, tuple[float, Callable[[np.random.Generator, int], NDArray[np.float64]]]] = {  # mean, draws
    "coin": (0.6, lambda rng, n: (rng.random(n) < 0.6) * 1.0),
    "rare": (0.02, lambda rng, n: (rng.random(n) < 0.02) * 1.0),
    "skewed": (0.1, lambda rng, n: rng.beta(0.1, 0.9, n)),
    "narrow": (0.9, lambda rng, n: 0.9 + rng.uniform(-0.05, 0.05, n)),
}


@pytest.mark.parametrize("name", first(1, LAWS))
@pytest.mark.parametrize("fixed", [False, True])
def test_the_interval_covers_the_mean(name: str, fixed: bool) -> None:
    """2,000 simulations of 50 numbers: misses beyond alpha = 0.1 happen by chance once in 10^9."""
    rng, (mean, draw) = np.random.default_rng(1), LAWS[name]
    ends = np.array([interval(draw(rng, 50), ALPHA, fixed) for _ in range(RUNS)])
    missed = int(((mean < ends[:, 0]) | (mean > ends[:, 1])).sum())
    assert missed <= stats.binom.isf(1e-9, RUNS, ALPHA)


def test_it_may_be_looked_at_any_time() -> None:
    """200 runs of up to 1,000 coins with 10 looks: misses beyond alpha = 0.1 by chance once in 10^9.

    The interval for one look, taken at each, misses far more often: the promise is not empty.
    """
    rng, looks, runs = np.random.default_rng(2), np.geomspace(20, 1000, 10).astype(int), 200
    missed, wrong = 0, 0
    for _ in range(runs):
        x = (rng.random(looks[-1]) < 0.6) * 1.0
        ends = np.array([interval(x[:n], ALPHA) for n in looks])
        missed += not (ends[:, 0].max() <= 0.6 <= ends[:, 1].min())
        once = np.array([clopper_pearson(int(x[:n].sum()), int(n), ALPHA) for n in looks])
        wrong += not (once[:, 0].max() <= 0.6 <= once[:, 1].min())
    assert missed <= stats.binom.isf(1e-9, runs, ALPHA) < wrong


@pytest.mark.parametrize(("fixed", "most"), [(False, 1.6), (True, 1.3)])
def test_it_is_hardly_wider_than_one_that_knows_the_variance(fixed: bool, most: float) -> None:
    """10,000 numbers of any variance, beside the normal interval of the same level with the true variance."""
    rng = np.random.default_rng(3)
    for _, draw in LAWS.values():
        x = draw(rng, 10_000)
        low, high = interval(x, 0.01, fixed)
        assert low < x.mean() < high
        assert high - low < most * 2 * stats.norm.isf(0.005) * x.std() / 100


def test_its_ends() -> None:
    assert interval([], 0.1) == (0.0, 1.0)
    for fixed in (False, True):
        low, high = interval(np.zeros(200), 0.1, fixed)
        assert low == 0
        assert high < 2 * math.log(20) / 200  # zeros prove at best an upper bound of ln(2 / alpha) / n
        assert interval(np.ones(200), 0.1, fixed) == pytest.approx((1 - high, 1.0), abs=1e-12)
    low, high = interval(np.full(1000, 1e-20), 0.1)
    assert low == pytest.approx(1e-20, rel=0.01)  # proportional to the share, however small
    with pytest.raises(ValueError, match=r"0\.5 to 1\.1"):
        interval([0.5, 1.1], 0.1)
    with pytest.raises(ValueError, match="nan to nan"):
        interval([0.5, math.nan], 0.1)


def by_the_definition(x: NDArray[np.float64], alpha: float) -> tuple[float, float]:
    """The interval for one look, from the published stakes number by number and a search among all means."""
    limit = math.log(2 / alpha)

    def lower(x: NDArray[np.float64]) -> float:
        total, squares, stakes = 0.5, 0.25, []
        for i, value in enumerate(x, 1):
            stakes.append(math.sqrt(2 * limit / (len(x) * squares / i)))
            total += value
            squares += (value - total / (i + 1)) ** 2

        def missing(log_mean: float) -> float:
            mean = math.exp(log_mean)
            wealth = np.log1p(np.minimum(stakes, 0.9 / mean) * (x - mean)).cumsum()
            return float(max(0.0, wealth.max())) - limit

        return math.exp(brentq(missing, -600, 0, rtol=1e-12)) if missing(-600) > 0 else 0.0

    return lower(x), 1 - lower(1 - x)


@pytest.mark.parametrize("count", [1, 3, 200, 5000])
@pytest.mark.parametrize("value", [0.0, 1e-9, 0.12, 0.5, 0.731058579, 1 - 1e-9, 1.0])
def test_one_value_alone_has_the_interval_of_the_definition(value: float, count: int) -> None:
    assert interval(np.full(count, value), 0.005, fixed=True) == pytest.approx(
        by_the_definition(np.full(count, value), 0.005), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("order", [1, -1, 0])  # rising, falling, as drawn
def test_any_values_have_the_interval_of_the_definition(name: str, order: int) -> None:
    x = LAWS[name][1](np.random.default_rng(5), 3000)
    x = np.sort(x)[::order] if order else x
    assert interval(x, 0.005, fixed=True) == pytest.approx(by_the_definition(x, 0.005), rel=1e-9, abs=1e-12)


def test_the_ends_are_searched_for_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen looks at the values an end; among all means it took some fifty."""
    looks = []
    planned = betting._planned

    def counted(x: NDArray[np.float64], stakes: NDArray[np.float64]) -> betting.Wealth:
        wealth = planned(x, stakes)
        return lambda mean: looks.append(mean) or wealth(mean)  # type: ignore[func-returns-value]

    monkeypatch.setattr(betting, "_planned", counted)
    interval(LAWS["coin"][1](np.random.default_rng(6), 10_000), 0.005, fixed=True)
    assert 2 <= len(looks) <= 24
