"""Measures of similarity: by hand, at their ends, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from epsilometer.utility.similarity import summary, surface


def test_surface_by_hand() -> None:
    found = surface(["The cat, the dog!", "a b c d", "", "one"], ["the cat sat", "d c x x", "", "Two"])
    # "the cat the dog" -> "the cat sat": 15 and 11 characters.
    assert found["edit"][0] == pytest.approx(1 - 7 / 15)
    np.testing.assert_allclose(found["overlap"], [2 / 4, 2 / 5, 1, 0])
    np.testing.assert_allclose(found["kept"], [2 / 4, 2 / 4, 1, 0])
    assert found["edit"][2] == 1


def test_equal_texts_are_alike_whatever_their_layout() -> None:
    found = surface(["Don't  STOP me."], ["don’t stop me"])
    assert {name: values.tolist() for name, values in found.items()} == {"edit": [1], "overlap": [1], "kept": [1]}


def test_intervals_are_students() -> None:
    values = np.array([0.2, 0.4, 0.9, 0.5])
    row = summary({"cosine": values}, 0.05).row(0, named=True)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (row["cosine"], row["cosine_low"], row["cosine_high"]) == pytest.approx((0.5, low, high))
    assert summary({"kept": np.ones(5)}, 0.05).row(0) == (1, 1, 1)
    assert summary({"kept": np.array([0.5])}, 0.05).row(0) == (0.5, 0.5, 0.5)
