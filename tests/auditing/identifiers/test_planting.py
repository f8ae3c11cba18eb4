"""Identifiers that are planted: where they stand, and that they are told apart."""

from __future__ import annotations

import pytest

from epsilometer.auditing.identifiers.planting import KINDS, plant
from epsilometer.auditing.worth.leakage import survives
from epsilometer.core.errors import UserError

TEXTS = ["One sentence. Another one!", "no full stop", "Dr. Lee came. She left.\nThen rain."]


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_holds_its_value_at_its_place_and_no_other_text_does(kind: str) -> None:
    rows = plant(TEXTS, kind, 300, seed=3)
    assert len({row.value.casefold() for row in rows}) == 300
    for row in rows:
        assert row.text[row.start : row.start + len(row.value)] == row.value
        assert row.text.count(row.value) == 1
        assert survives(row.value, row.text)
        assert "\n" not in row.value
    assert rows == plant(TEXTS, kind, 300, seed=3)
    assert rows != plant(TEXTS, kind, 300, seed=4)


def test_a_sentence_is_planted_between_sentences_and_the_text_stays() -> None:
    places = set()
    for row in plant(["Dr. Lee came. She left."], "date", 60, seed=1):
        rest = [part for part in ("Dr. Lee came.", "She left.") if part in row.text]
        assert len(rest) == 2
        places.add(sum(row.text.index(part) < row.start for part in rest))
    assert places == {0, 1, 2}  # 60 draws of three places: one is missed with probability 3 (2/3)^60 = 1e-10


def test_bad_input() -> None:
    with pytest.raises(UserError, match="kind of identifier"):
        plant(TEXTS, "names", 3, seed=0)
    with pytest.raises(UserError, match="there are no 20 different values of kind 'date'"):
        _of_few_values()


def _of_few_values() -> None:
    from epsilometer.auditing.identifiers import planting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planting, "_value", lambda fake, kind: "1999-01-01")
        patch.setattr(planting, "_TRIES", 2)
        plant(TEXTS, "date", 20, seed=0)
