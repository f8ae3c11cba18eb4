"""Ceilings of texts in one call."""

from __future__ import annotations

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing.ceilings.ceiling import share_of_possible
from epsilometer.auditing.ceilings.frontier import Frontier
from epsilometer.auditing.ceilings.set_trials import draw_sets
from epsilometer.core.errors import UserError
from epsilometer.corpora.synthetic import generate
from epsilometer.text.words import words

TEXTS = list(generate("queries", 80, 1)["text"])


def test_ceilings_rise_with_the_loss_up_to_everything() -> None:
    table = epsilometer.ceiling(TEXTS, [0, 1, 4, 40], sets=8, size=6, public=TEXTS[:20])
    for column in ("guess_loss", "pure_epsilon"):
        assert table[column].is_sorted()
        assert table[column][-1] == pytest.approx(1, abs=1e-3)
    assert (table["pure_epsilon"] <= table["guess_loss"] + 1e-6).all()  # a pure epsilon bounds the average loss too
    assert 0 < table["one_text"][0] < table["guess_loss"][0]


def test_sets_hold_different_texts_of_equal_length_where_asked() -> None:
    for numbers in draw_sets(TEXTS, 20, 4, equal_length=True):
        assert len(set(numbers.tolist())) == 4
        assert len({len(words(TEXTS[i])) for i in numbers}) == 1


def test_a_share_is_0_for_one_text_and_1_at_the_ceiling() -> None:
    bounds = Frontier(np.array([0.5, 1.0]), np.array([0.4, 1.0]), np.array([0.4, 1.0]))
    assert share_of_possible(0.2, 0.0, bounds, 0.2) == 0
    assert share_of_possible(0.4, 0.0, bounds, 0.2) == pytest.approx(1)
    assert share_of_possible(0.1, 0.0, bounds, 0.2) < 0
    assert np.isnan(share_of_possible(0.5, 0.0, bounds, 0.4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"losses": [-1.0]}, "losses must be numbers >= 0"),
        ({"losses": [float("nan")]}, "losses must be numbers >= 0"),
        ({"size": 13}, "sets of 2 to 12 texts"),
        ({"sets": 0}, "sets must be at least 1"),
        ({"texts": TEXTS[:3], "size": 4}, "no 4 of the 3 texts can be drawn"),
        ({"texts": ["one", "two words", "three words here"], "size": 2, "equal_length": True}, "equally many words"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        epsilometer.ceiling(**{"texts": TEXTS, **arguments})  # type: ignore[arg-type]
