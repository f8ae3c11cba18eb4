"""Results computed from a table of scores equal those computed row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epsilometer.core.attack import Context, choose, guess_and_score, margins
from epsilometer.core.likelihood import posteriors
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from tests.support.refusals import refused

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


def test_a_score_that_is_no_number_is_refused() -> None:
    with refused("EPS-C006"):
        choose(np.array([[1.0, 0.0], [np.nan, 1.0]]), Noise.named(2, "ties"))


CANDIDATES = np.array([[0, 1], [1, 2], [2, 0]], np.int32)


class Says:
    """Names what it was made to name."""

    def __init__(self, slots: Any) -> None:
        self.slots = slots

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> Any:
        return self.slots


@pytest.mark.parametrize(
    "slots",
    [
        [0, 1, 0],
        np.array([0, 1]),
        np.array([[0], [1], [0]]),
        np.array([0, 1, 2]),
        np.array([0, -1, 0]),
        np.zeros(3),
        None,
    ],
)
def test_guesses_that_are_no_slots_are_refused(slots: Any) -> None:
    context = Context(["a", "b", "c"], None, 1.0, Noise.named(3, "ties"))
    with refused("EPS-C005", "3", "0", "1"):
        guess_and_score(Says(slots), [Rewrites(["a", "b", "c"])], CANDIDATES, [context])


def test_an_attack_changes_nothing_for_another() -> None:
    class Edits:
        def guess(self, rewrites: Any, candidates: Any, context: Any) -> NDArray[np.int16]:
            rewrites.texts[:] = context.texts[:] = ["changed"] * 3
            return np.zeros(3, np.int16)

    class Swaps:
        def guess(self, rewrites: Any, candidates: Any, context: Any) -> NDArray[np.int16]:
            candidates[:] = candidates[:, ::-1].copy()
            return np.zeros(3, np.int16)

    texts, outputs, candidates = ["a", "b", "c"], Rewrites(["a", "b", "c"]), CANDIDATES.copy()
    context = Context(texts, None, 1.0, Noise.named(3, "ties"))
    guess_and_score(Edits(), [outputs], candidates, [context])
    with pytest.raises(ValueError, match="read-only"):
        guess_and_score(Swaps(), [outputs], candidates, [context])
    assert (texts, list(outputs.texts), candidates.tolist()) == (["a", "b", "c"], ["a", "b", "c"], CANDIDATES.tolist())
