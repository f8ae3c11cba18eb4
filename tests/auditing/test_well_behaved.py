"""Whether a curve falls or rises: how often the tests are wrong, and what they find."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epsilometer.auditing.well_behaved import FALLS, NO_MESSAGE, NOT_MONOTONE, Moves, by_intervals, paired, verdicts

TEXTS, LEVELS = 24, 4


def curves(means: list[float], seed: int, spread: float = 0.2) -> np.ndarray:
    """Texts differ from each other more than their values do from level to level."""
    generator = np.random.default_rng(seed)
    own = generator.uniform(0.2, 0.8, TEXTS)
    return np.array(means)[:, None] + own + spread * generator.normal(size=(len(means), TEXTS))


@pytest.mark.parametrize("which", ["fall", "rise"])
def test_flat_curves_are_seldom_said_to_move(which: str) -> None:
    """200 flat curves at level .1: more rejections come by chance once in 10^6."""
    p = [getattr(paired(curves([0.0] * LEVELS, seed)), which) for seed in range(200)]
    assert sum(one <= 0.1 for one in p) <= stats.binom.isf(1e-6, 200, 0.1)


def test_a_falling_curve_falls_and_one_with_a_hump_is_not_monotone() -> None:
    falling, hump = paired(curves([0.6, 0.4, 0.2, 0.0], 0)), paired(curves([0.3, 0.6, 0.3, 0.0], 0))
    flat = paired(curves([0.0] * LEVELS, 0))
    assert verdicts([falling, hump, flat], 0.01) == [FALLS, NOT_MONOTONE, NO_MESSAGE]


def test_intervals_of_the_stated_level_say_the_same() -> None:
    """Figures with deviation .02: 2,000 flat curves at level .05, more rejections come once in 10^6."""
    generator = np.random.default_rng(0)
    half = stats.norm.isf(0.005) * 0.02
    rejected = 0
    for _ in range(2000):
        values = 0.5 + 0.02 * generator.normal(size=3)
        rejected += by_intervals(values.tolist(), (values - half).tolist(), (values + half).tolist(), 0.01).fall <= 0.05
    assert stats.binom.ppf(1e-6, 2000, 0.05) <= rejected <= stats.binom.isf(1e-6, 2000, 0.05)
    values = [0.7, 0.6, 0.5]
    ends = [v - half for v in values], [v + half for v in values]
    assert by_intervals(values, *ends, 0.01).fall < 1e-6
    assert by_intervals(values[::-1], ends[0][::-1], ends[1][::-1], 0.01).rise < 1e-6


def test_many_curves_are_corrected_together() -> None:
    one = Moves(0.004, 1.0)
    assert verdicts([one], 0.01) == [FALLS]
    assert verdicts([one] * 5, 0.01) == [NO_MESSAGE] * 5


def test_figures_without_a_spread_are_taken_as_they_are() -> None:
    assert by_intervals([1.0, 0.0], [1.0, 0.0], [1.0, 0.0], 0.01) == Moves(0.0, 1.0)
    assert by_intervals([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0.01) == Moves(1.0, 1.0)
