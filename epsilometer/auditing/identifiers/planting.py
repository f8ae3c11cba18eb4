"""Identifiers that an audit plants: an invented value in a short sentence, put between two sentences of a text.

So it is known where an identifier stands, whatever a detector says: one that a mechanism masks by proves nothing about
it. Values are drawn with Faker (en_US), no two alike and none that stands in its text already; texts are drawn
uniformly, as is the place among the sentences. What is measured is the share of such identifiers that survive in these
texts; the texts' own identifiers may be written otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from epsilometer.auditing.worth.leakage import survives
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.randomness import Noise
from epsilometer.text.sentences import sentences

if TYPE_CHECKING:
    from faker import Faker

_TRIES = 1000  # draws of a value before a kind is taken to have no more

_SENTENCES = {
    "name": ("Please ask for {}.", "I was helped by {} yesterday.", "My name is {}."),
    "address": ("I live at {}.", "Send it to {}.", "They moved to {} last year."),
    "e-mail address": ("Write to {}.", "My address is {} now.", "The answer came from {}."),
    "phone number": ("Call me at {}.", "My number is {}.", "You can reach us under {} all day."),
    "date": ("I was born on {}.", "It happened on {}.", "We met on {} for the first time."),
    "order number": ("My order number is {}.", "It is about order {}.", "Under reference {} nothing was found."),
}
KINDS = tuple(_SENTENCES)


class PlantedText(NamedTuple):
    """A text with an identifier at a known place, its characters from start on; source: the text without it."""

    text: str
    value: str
    start: int
    source: str


def plant(texts: Sequence[str], kind: str, count: int, seed: int) -> list[PlantedText]:
    """So many texts, drawn from these with replacement, each with an identifier of this kind of its own.

    Raises UserError for an unknown kind, and where there are not so many values.
    """
    if kind not in KINDS:
        raise unknown("kind of identifier", kind, KINDS)
    from faker import Faker

    rng = Noise.named(1, seed, "planted", kind).generator(0)
    fake = Faker("en_US")
    fake.seed_instance(int(rng.integers(2**63)))
    taken: set[str] = set()
    rows = []
    for source in rng.integers(len(texts), size=count):
        text = texts[int(source)]
        value = _new(lambda: _value(fake, kind), taken, text)
        if value is None:
            raise UserError(f"there are no {count} different values of kind {kind!r}; ask for fewer texts")
        taken.add(value.casefold())
        rows.append(_put(text, _SENTENCES[kind][int(rng.integers(3))], value, rng))
    return rows


def _new(draw: Callable[[], str], taken: set[str], text: str) -> str | None:
    for _ in range(_TRIES):
        value = draw()
        if value.casefold() not in taken and not survives(value, text):
            return value
    return None


def _put(text: str, carrier: str, value: str, rng: np.random.Generator) -> PlantedText:
    """The text with the sentence between two of its own, before the first or after the last."""
    parts = sentences(text)
    at = int(rng.integers(len(parts) + 1))
    before = "".join(sentence + gap for sentence, gap in parts[:at])
    after = "".join(sentence + gap for sentence, gap in parts[at:])
    before += " " if before and not before[-1].isspace() else ""
    sentence = carrier.format(value)
    planted = before + sentence + (" " if after else "") + after
    return PlantedText(planted, value, len(before) + carrier.index("{}"), source=text)


def _value(fake: Faker, kind: str) -> str:
    match kind:
        case "name":
            return f"{fake.first_name()} {fake.last_name()}"
        case "address":
            return f"{fake.street_address()}, {fake.city()}".replace("\n", ", ")
        case "e-mail address":
            return str(fake.ascii_safe_email())
        case "phone number":
            return str(fake.basic_phone_number())
        case "date":
            return str(fake.date(fake.random_element(("%d %B %Y", "%B %d, %Y", "%Y-%m-%d", "%d/%m/%Y"))))
        case _:
            return str(
                fake.bothify(fake.random_element(("#######", "??-######", "###-#######")), letters="ABCDEFGHJKLMN")
            )
