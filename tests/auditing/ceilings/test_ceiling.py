"""Ceilings of texts in one call."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import epsilometer
from epsilometer.auditing.ceilings.ceiling import share_of_possible
from epsilometer.auditing.ceilings.frontier import Frontier
from epsilometer.auditing.ceilings.set_trials import draw_sets, grown_sets
from epsilometer.corpora.synthetic import generate
from epsilometer.text.words import words
from tests.support.refusals import refused

TEXTS = list(generate("queries", 80, 1)["text"])


def test_ceilings_rise_with_the_loss_up_to_everything() -> None:
    table = epsilometer.ceiling(TEXTS, [0, 1, 4, 40], sets=8, size=6, public=TEXTS[:20])
    for column in ("guess_loss", "pure_epsilon"):
        assert table[column].is_sorted()
        assert table[column][-1] == pytest.approx(1, abs=1e-3)
    assert (table["pure_epsilon"] <= table["guess_loss"] + 1e-6).all()  # a pure epsilon bounds the average loss too
    assert 0 < table["one_text"][0] < table["guess_loss"][0]


def test_sets_hold_different_texts_of_equal_length_where_asked() -> None:
    sets = draw_sets(TEXTS, 20, 4, equal_length=True)
    assert len(sets) == 20
    for numbers in sets:
        assert len(set(numbers.tolist())) == 4
        assert len({len(words(TEXTS[i])) for i in numbers}) == 1


def test_sets_grow_along_audited_pairs() -> None:
    chain = np.stack([np.arange(30), np.arange(30) + 1], axis=1)
    sets = grown_sets(chain, 10)
    assert sorted(np.concatenate(sets).tolist()) == list(range(30))
    assert max(len(np.unique(chain[places])) for places in sets) == 10
    assert len(sets) == 6, "three of ten texts, and the pairs between them"


def test_all_pairs_of_ten_texts_have_the_ceiling_of_their_set_and_pairs_apart_a_higher_one() -> None:
    ten = TEXTS[:10]
    every = list(combinations(range(10), 2))
    of_set = epsilometer.ceiling(ten, [0, 1], sets=1)
    along = epsilometer.ceiling_of_pairs(ten, every, [0, 1])
    apart = epsilometer.ceiling_of_pairs(ten, np.arange(10).reshape(5, 2), [0, 1])
    assert along["guess_loss"].to_list() == pytest.approx(of_set["guess_loss"].to_list(), abs=2e-3)
    assert (apart["guess_loss"] > along["guess_loss"] + 0.03).all()
    assert (along["texts"][0], apart["texts"][0]) == (10, 2)


def test_a_set_counts_by_its_pairs() -> None:
    """A star of three pairs and one pair: as if the star's set were there three times."""
    star, pair = [(0, 1), (0, 2), (0, 3)], [(4, 5)]
    both, first, second = (epsilometer.ceiling_of_pairs(TEXTS, pairs, [0]) for pairs in (star + pair, star, pair))
    expected = (3 * first["guess_loss"][0] + second["guess_loss"][0]) / 4
    assert both["guess_loss"][0] == pytest.approx(expected, abs=1e-4)
    assert both["texts"][0] == pytest.approx(3.5)


def test_a_share_is_0_for_one_text_and_1_at_the_ceiling() -> None:
    bounds = Frontier(np.array([0.5, 1.0]), np.array([0.4, 1.0]), np.array([0.4, 1.0]))
    assert share_of_possible(0.2, 0.0, bounds, 0.2) == 0
    assert share_of_possible(0.4, 0.0, bounds, 0.2) == pytest.approx(1)
    assert share_of_possible(0.1, 0.0, bounds, 0.2) < 0
    assert np.isnan(share_of_possible(0.5, 0.0, bounds, 0.4))


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"losses": [-1.0]}, ("EPS-A041", "losses", "0")),
        ({"losses": [float("nan")]}, ("EPS-A041", "losses", "0")),
        ({"losses": 1.0}, ("EPS-C068", "losses", "[1.0]")),
        ({"losses": 1, "pairs": [(0, 1)]}, ("EPS-C068", "losses", "[1]")),
        ({"losses": ["1"]}, ("EPS-C066", "losses", "'1'")),
        ({"sets": 2.5}, ("EPS-C067", "sets", "2.5")),
        ({"size": 2.5}, ("EPS-C067", "size", "2.5")),
        ({"size": 13}, ("EPS-A051", "12")),
        ({"pairs": [(0, 1)], "size": 1}, ("EPS-A051", "12")),
        ({"pairs": []}, ("EPS-A042", "pairs")),
        ({"pairs": [(0, 1, 2)]}, ("EPS-A042", "pairs")),
        ({"pairs": [(0, 80)]}, ("EPS-A043", "80", "79")),
        ({"pairs": [(0, 1), (3, 3)]}, ("EPS-A044", "1", "2", "pairs")),
        ({"sets": 0}, ("EPS-A049", "sets", "1")),
        ({"texts": TEXTS[:3], "size": 4}, ("EPS-A050", "4", "3")),
        ({"texts": ["one", "two words", "three words here"], "size": 2, "equal_length": True}, ("EPS-A050", "2", "3")),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object], refusal: tuple[str, ...]) -> None:
    call = epsilometer.ceiling_of_pairs if "pairs" in arguments else epsilometer.ceiling
    with refused(*refusal):
        call(**{"texts": TEXTS, **arguments})  # type: ignore[operator]
