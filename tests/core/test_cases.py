from __future__ import annotations

import numpy as np
import pytest

from epsilometer.core.attack import choose, margins
from epsilometer.core.cases import ByCase, cases
from epsilometer.core.likelihood import posteriors
from epsilometer.core.mechanism import Latents, Repeated, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise

_DRAW = np.random.default_rng(0)
_CANDIDATES = _DRAW.permuted(np.tile(np.arange(4, dtype=np.int32), (5_000, 1)), axis=1)[:, :3]
_RELEASED = _DRAW.integers(0, 2, 5_000).astype(np.int32)


def test_the_cases_say_of_every_trial_what_it_is() -> None:
    few = cases(Rewrites(Repeated(("a", "b"), _RELEASED), Ragged.single(_RELEASED)), _CANDIDATES)
    assert few is not None
    assert len(few.candidates) == 4 * 3 * 2 * 2
    np.testing.assert_array_equal(few.candidates[few.number], _CANDIDATES)
    assert isinstance(few.rewrites.texts, Repeated)
    assert few.rewrites.units is not None
    for numbers in (few.rewrites.texts.numbers, few.rewrites.units.values):
        np.testing.assert_array_equal(numbers[few.number], _RELEASED)


@pytest.mark.parametrize(
    "rewrites",
    [
        Rewrites([str(number) for number in _RELEASED]),
        Rewrites(Repeated(tuple(map(str, range(1_000))), _RELEASED)),
        Rewrites(Repeated(("a", "b"), _RELEASED), Ragged.single(1 - _RELEASED)),
        Rewrites(Repeated(("a", "b"), _RELEASED), Ragged.from_lengths(np.append(_RELEASED, 0), np.full(5_000, 1))),
        Rewrites(Repeated(("a", "b"), _RELEASED), latents=Latents(*np.zeros((2, 5_000, 1), np.float32))),
    ],
)
def test_no_cases_where_more_than_a_few_texts_is_released(rewrites: Rewrites) -> None:
    assert cases(rewrites, _CANDIDATES) is None


def test_a_table_by_case_is_judged_as_the_table_itself() -> None:
    """Rows with ties, with impossible candidates, and none that is possible."""
    rows = np.array([[0.0, 1, 1], [2, 1, 0], [0, 0, 0], [-np.inf, 0, -np.inf], [-np.inf] * 3, [1e-7, 0, -5]])
    number, noise = _DRAW.integers(0, len(rows), 40_000), Noise.named(40_000, "ties")
    few, whole = ByCase(rows, number), rows[number]
    np.testing.assert_array_equal(few.whole, whole)
    slots = choose(whole, noise)
    np.testing.assert_array_equal(choose(few, noise), slots)
    np.testing.assert_array_equal(choose(few[100:200], noise[100:200]), slots[100:200])
    assert all(np.ptp(slots[number == tied]) > 0 for tied in (0, 2, 5))
    for guessed in (slots, _DRAW.integers(0, 3, 40_000)):  # another attack may name any slot
        np.testing.assert_array_equal(margins(few, guessed), margins(whole, guessed))
        np.testing.assert_array_equal(posteriors(few, guessed), posteriors(whole, guessed))
