"""Planted identifiers: their places, their shapes, and that they are distinct."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain

import pytest

from epsilometer.auditing.identifiers import planting
from epsilometer.auditing.identifiers.carriers import CARRIERS, END, MIDDLE, START
from epsilometer.auditing.identifiers.planting import KINDS, LONG, ON_REQUEST, plant, plant_long, shapes
from epsilometer.text.identifier_matching import survives
from tests.support.refusals import refused

TEXTS = ["One sentence. Another one!", "no full stop", "Dr. Lee came. She left.\nThen rain."]
EVERY = [(kind, shape) for kind in CARRIERS for shape in shapes(kind)]


@pytest.mark.parametrize(("kind", "shape"), EVERY)
def test_each_text_holds_its_value_at_its_place(kind: str, shape: str) -> None:
    rows = plant(TEXTS, kind, 20, seed=3, shape=shape)
    assert len({row.value.casefold() for row in rows}) == 20
    for row in rows:
        assert row.text[slice(*row.places[0])] == row.value
        assert survives(row.value, row.text)
        assert not survives(row.value, row.source)
        assert "\n" not in row.value
        assert len(row.places) == (3 if shape == planting.SEVERAL else 1)
    assert rows == plant(TEXTS, kind, 20, seed=3, shape=shape)
    assert rows != plant(TEXTS, kind, 20, seed=4, shape=shape)


@pytest.mark.parametrize("kinds", [list(KINDS), ["date"], list(ON_REQUEST)])
def test_each_long_text_holds_its_values_at_their_places(kinds: list[str]) -> None:
    """Two texts serve three shapes, and each kind has its share of every shape."""
    by_shape = plant_long(TEXTS, kinds, 24, seed=3)
    assert [*by_shape] == [*LONG]
    for shape, rows in by_shape.items():
        assert len(rows) == len({row.text for row in rows}) == 24, "texts of a shape are independent"
        for row in rows:
            assert row.start == LONG[shape]
            assert row.text[slice(*row.places[0])] == row.value
            assert survives(row.value, row.text)
            assert not survives(row.value, row.source)
            assert len(row.text) >= 10_500
    assert len({row.text for rows in by_shape.values() for row in rows}) == 2 * 24
    assert by_shape == plant_long(TEXTS, kinds, 24, seed=3)
    assert by_shape != plant_long(TEXTS, kinds, 24, seed=4)


def test_each_kind_has_its_share_of_every_place_in_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    value = planting._value
    monkeypatch.setattr(planting, "_value", lambda fake, kind, shape: f"{kind} of {value(fake, kind, shape)}")
    for rows in plant_long(TEXTS, KINDS, 59, seed=1).values():
        counts = Counter(next(kind for kind in KINDS if row.value.startswith(f"{kind} of")) for row in rows)
        assert all(59 // len(KINDS) <= counts[kind] <= 59 // len(KINDS) + 1 for kind in KINDS)


def test_there_are_twenty_carriers_a_kind_at_three_places() -> None:
    for of_kind in CARRIERS.values():
        every = list(chain(*of_kind.values()))
        assert len({*every}) == len(every) >= 20
        assert all(carrier.startswith("{} ") for carrier in of_kind[START])
        assert all(not carrier.startswith("{}") and not carrier.endswith("{}.") for carrier in of_kind[MIDDLE])
        assert all(carrier.endswith("{}.") for carrier in of_kind[END])


def test_shapes_of_names() -> None:
    """Of each shape, every value has its mark."""
    marks: dict[str, Callable[[str], bool]] = {
        planting.LOWER: str.islower,
        planting.UPPER: str.isupper,
        planting.SINGLE: lambda name: len(name.split()) == 1,
        planting.INITIALS: lambda name: name[1] == ".",
        planting.HYPHEN: lambda name: "-" in name,
        planting.APOSTROPHE: lambda name: "'" in name or "’" in name,
        planting.FOREIGN: lambda name: not name.isascii(),
    }
    for shape, marked in marks.items():
        assert all(marked(row.value) for row in plant(TEXTS, "name", 30, seed=1, shape=shape)), shape
    for shape in (planting.PUNCTUATION, planting.EMOJI):
        for row in plant(TEXTS, "name", 30, seed=1, shape=shape):
            start, end = row.places[0]
            assert {row.text[start - 1], row.text[end]} != {" "}
    titled = plant(TEXTS, "name", 30, seed=1, shape=planting.TITLE)
    assert all(
        row.text[: row.start].split()[-1].strip(".") in ("Mr", "Mrs", "Ms", "Dr", "Prof", "Miss", "Sir")
        for row in titled
    )


def test_a_sentence_is_planted_between_sentences_and_the_text_stays() -> None:
    places = set()
    for row in plant(["Dr. Lee came. She left."], "date", 60, seed=1):
        rest = [part for part in ("Dr. Lee came.", "She left.") if part in row.text]
        assert len(rest) == 2
        places.add(sum(row.text.index(part) < row.start for part in rest))
    assert places == {0, 1, 2}  # 60 draws of three places: one is missed with probability 3 (2/3)^60 = 1e-10


def test_values_are_used_again_only_when_there_are_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        planting, "_value", lambda fake, kind, shape: str(fake.random_element(("1999-01-01", "2000-01-01")))
    )
    counts = Counter(row.value for row in plant(TEXTS, "date", 20, seed=0))
    assert len(counts) == 2
    assert sum(counts.values()) == 20


def test_bad_input() -> None:
    with refused("EPS-C022"):
        plant(TEXTS, "names", 3, seed=0)


def test_a_text_that_holds_every_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "_value", lambda fake, kind, shape: "1999-01-01")
    with refused("EPS-A117"):
        plant(["On 1 January 1999."], "date", 1, seed=0)
