"""An order is stated where it can be told, and hardly ever where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from epsilometer.studies.leaderboard.ranking import LEVEL, p_value, ranks, surely_above


def test_equally_good_mechanisms_are_hardly_ever_ordered() -> None:
    """Of 2,000 boards of four that are equally good on every split but for noise, at most 5 % state any order.

    The bound is four standard deviations above 5 %, so that a right test fails with probability below 1e-4.
    """
    generator, boards = np.random.default_rng(0), 2000
    alarms = 0
    for _ in range(boards):
        split = generator.normal(size=5)  # what all have in common on a split
        values = {name: split + generator.normal(size=5) for name in "abcd"}
        alarms += any(surely_above(values).values())
    assert alarms / boards <= LEVEL + 4 * (LEVEL * (1 - LEVEL) / boards) ** 0.5
    assert alarms > 0  # the level is used


def test_clear_differences_are_told_whatever_splits_have_in_common() -> None:
    split = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    noise = np.random.default_rng(1).normal(scale=0.001, size=(3, 5))
    values = {name: split + offset + own for name, offset, own in zip("abc", (0.0, 0.1, 0.3), noise, strict=True)}
    above = surely_above(values)
    assert above == {"a": [], "b": ["a"], "c": ["a", "b"]}
    assert ranks(above) == {"c": 1, "b": 2, "a": 3}


def test_equal_values_have_one_rank() -> None:
    above = surely_above({"a": [0.5] * 5, "b": [0.5] * 5})
    assert above == {"a": [], "b": []}
    assert ranks(above) == {"a": 1, "b": 1}


def test_the_test_is_the_paired_t_test() -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 5))
    assert p_value(a - b) == pytest.approx(ttest_rel(a, b).pvalue)
    assert p_value(np.full(5, 0.2)) == 0
