"""Mechanisms are ordered if the data show an order, and hardly ever if they are equally good."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from epsilometer.studies.leaderboard.ranking import LEVEL, p_value, surely_above, tiers


def test_equally_good_mechanisms_are_hardly_ever_ordered() -> None:
    """Of 2,000 boards of four that are equally good on every split but for noise, at most 5 % state any order.

    The bound is four standard deviations above 5 %, so that a right test fails with probability below 1e-4.
    """
    generator, boards = np.random.default_rng(0), 2000
    alarms = 0
    for _ in range(boards):
        split = generator.normal(size=5)  # the common effect of a split
        values = {name: split + generator.normal(size=5) for name in "abcd"}
        alarms += any(surely_above(values).values())
    assert alarms / boards <= LEVEL + 4 * (LEVEL * (1 - LEVEL) / boards) ** 0.5
    assert alarms > 0  # some false alarms occur, so the level is not wasted


def test_clear_differences_are_told_whatever_splits_have_in_common() -> None:
    split = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    noise = np.random.default_rng(1).normal(scale=0.001, size=(3, 5))
    values = {name: split + offset + own for name, offset, own in zip("abc", (0.0, 0.1, 0.3), noise, strict=True)}
    above = surely_above(values)
    assert above == {"a": [], "b": ["a"], "c": ["a", "b"]}
    assert tiers(means(values), above) == {"c": 1, "b": 2, "a": 3}


def test_equal_values_have_one_tier() -> None:
    above = surely_above({"a": [0.5] * 5, "b": [0.5] * 5})
    assert above == {"a": [], "b": []}
    assert tiers({"a": 0.5, "b": 0.5}, above) == {"a": 1, "b": 1}


def test_a_tier_begins_at_the_first_that_is_below_some_of_the_current_tier() -> None:
    """`c` is below `a` alone, `d` below `a` too: `d` joins the tier of `c`. `e` is below `d`, though not below `c`."""
    above = {"a": ["c", "d", "e"], "b": ["e"], "c": [], "d": ["e"], "e": []}
    assert tiers(dict(zip("edcba", range(5), strict=True)), above) == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3}


def test_nothing_of_a_tier_is_shown_to_be_below_another_of_it() -> None:
    """Over 300 boards of random size, differences and noise; only some of their mechanisms have a tier."""
    generator = np.random.default_rng(3)
    split_up = 0
    for _ in range(300):
        names = [f"m{i}" for i in range(generator.integers(2, 12))]
        scales = generator.lognormal(-2, 1.5, size=len(names))  # mechanisms differ in their noise over splits
        common = generator.normal(size=5)
        values = {
            name: common + generator.normal(scale=2) + generator.normal(scale=scale, size=5)
            for name, scale in zip(names, scales, strict=True)
        }
        above = surely_above(values)
        eligible = {name: mean for name, mean in means(values).items() if mean > -2}
        tier = tiers(eligible, above)
        assert tier.keys() == eligible.keys()
        assert not [(a, b) for a in tier for b in above[a] if tier.get(b) == tier[a]]
        assert all(tier[a] < tier[b] for a in tier for b in above[a] if b in tier)
        ordered = sorted(eligible, key=lambda name: -eligible[name])
        steps = np.diff([tier[name] for name in ordered])
        assert {*steps} <= {0, 1}, "down the means, no number is left out"
        split_up += len({*tier.values()}) > 2 and len({*tier.values()}) < len(tier)
    assert split_up > 50  # boards have several tiers, some with several mechanisms


def means(values: dict[str, np.ndarray]) -> dict[str, float]:
    return {name: float(np.mean(each)) for name, each in values.items()}


def test_the_test_is_the_paired_t_test() -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 5))
    assert p_value(a - b) == pytest.approx(ttest_rel(a, b).pvalue)
    assert p_value(np.full(5, 0.2)) == 0
