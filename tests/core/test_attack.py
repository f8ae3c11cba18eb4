"""What is read off a table of scores, beside the same row by row."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.core.attack import choose, margins
from epsilometer.core.likelihood import posteriors
from epsilometer.core.randomness import Noise

RNG = np.random.default_rng(0)
TABLES = {
    "different": RNG.normal(size=(20_000, 2)),
    "ties": RNG.integers(0, 3, (20_000, 3)).astype(float),
    "impossible": np.where(RNG.random((2_000, 5)) < 0.3, -np.inf, RNG.normal(size=(2_000, 5))),
    "many": RNG.normal(size=(10, 2_000)),
    "none": np.empty((0, 2)),
}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> NDArray[np.float64]:
    return TABLES[request.param]


def test_one_of_the_best_is_chosen(table: NDArray[np.float64]) -> None:
    slots = choose(table, Noise.named(len(table), "ties"))
    assert slots.dtype == np.int16
    assert all(row[slot] == row.max() for row, slot in zip(table, slots, strict=True))


def test_a_margin_is_the_distance_to_the_best_of_the_others(table: NDArray[np.float64]) -> None:
    slots = np.random.default_rng(1).integers(0, table.shape[1], len(table))
    expected = []
    for row, slot in zip(table, slots, strict=True):
        other = np.delete(row, slot).max()
        expected.append(0.0 if row[slot] <= other else row[slot] - other)
    np.testing.assert_allclose(margins(table, slots), expected, atol=6e-7)


def test_a_posterior_is_the_share_of_the_likelihood(table: NDArray[np.float64]) -> None:
    slots = np.random.default_rng(2).integers(0, table.shape[1], len(table))
    with np.errstate(invalid="ignore"):
        expected = [np.exp(row[slot]) / np.exp(row).sum() for row, slot in zip(table, slots, strict=True)]
    np.testing.assert_allclose(posteriors(table, slots), expected, atol=1e-9)
