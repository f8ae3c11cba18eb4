"""Planted identifiers: an invented value in an invented sentence, put between two sentences of a text.

So the place of each identifier is known without a detector. (A detector that the mechanism itself uses would find
nothing that the mechanism misses.) Identifiers of a kind are planted in several shapes, because a masker that finds
plain names may miss names in lower case. A shape changes one property of a plain identifier in the middle of a
sentence: its place in the sentence or in a long text, its case, its surroundings, or the form of a name. In long
texts, kinds are planted in turn and counted together: if a mechanism does not read some part of a text, it misses
identifiers of any kind there.

Values are drawn with Faker (en_US) and from short lists. No value is already in its text, and values are distinct if
there are enough. The text and the place among its sentences are drawn uniformly. The measured share is that of planted
identifiers; the texts' real identifiers may have other forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from epsilometer.auditing.identifiers.carriers import CARRIERS, END, MIDDLE, START
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.randomness import Noise
from epsilometer.text.identifier_matching import survives
from epsilometer.text.sentences import sentences

if TYPE_CHECKING:
    from faker import Faker

ON_REQUEST = ("card number", "social security number", "IP address")  # kinds that are planted only if requested
KINDS = tuple(kind for kind in CARRIERS if kind not in ON_REQUEST)
ANY = "any kind"  # kind of identifiers in long texts, in which kinds are planted in turn
LOWER, UPPER = "lower case", "upper case"
SEVERAL, PUNCTUATION, EMOJI = "several in one text", "beside punctuation", "beside emoji"
LONG = {"at character 100": 100, "at character 9,990": 9_990, "at character 10,010": 10_010}
SINGLE, TITLE, INITIALS, HYPHEN = "single name", "title", "initials", "hyphen"
APOSTROPHE, FOREIGN, WORD = "apostrophe", "non-ASCII letters", "name that is a word"

_TOGETHER = (("at character 100", "at character 9,990"), ("at character 10,010",))  # each group is planted in one text
_SHAPES = (START, MIDDLE, END, LOWER, UPPER, SEVERAL, PUNCTUATION, EMOJI)
_NAME_SHAPES = (SINGLE, TITLE, INITIALS, HYPHEN, APOSTROPHE, FOREIGN, WORD)
_LENGTH = 10_500  # number of characters of a long text
_FRESH, _TRIES = 50, 1000  # draws until a value may be reused, and until the error that every value is in the text

_AROUND = ("({})", '"{}"', "[{}]", "<{}>", "*{}*", "/{}/", "{}:", "{};", "{}...", "{}!", "-{}-", "“{}”")
_EMOJI_AROUND = ("😀{}", "{}🎉", "👉{}", "{}👍🏽", "❤️{}❤️", "{}😢😢")
_TITLES = ("Mr ", "Mrs ", "Ms ", "Mr. ", "Mrs. ", "Dr ", "Dr. ", "Prof. ", "Miss ", "Sir ")
_BEFORE_APOSTROPHE = ("O’", "D’", "O'", "D'")
_FOREIGN_FIRST = """
Søren Håkon Zoë Chloé José Núria Björn Jürgen Łukasz Zbyněk Şükrü İpek Ayşe Gülçin Émile Agnès Mária László Dušan Živa
Ángel Begoña Iñaki João Conceição Þóra Ægir Mārtiņš Jānis Õie Ștefan Țuțea Đorđe Nguyệt Thị Αθηνά Юрий Ольга 美咲 Ørjan
""".split()  # noqa: SIM905
_FOREIGN_LAST = """
Müller Groß Ørsted Ångström Nuñez Peña García Çelik Yıldız Šimek Dvořák Wałęsa Żuraw Kovács Szűcs Lefèvre Beauchêne
Sigurðsson Kučera Petrović Ivanišević Bērziņš Kõiv Popéscu Căpraru Grüber Böhm Fjær Skjøld Öztürk Gonçalves Araújo
Trần Phạm Παππά Иванова 田中 Ó-Briain Sørbø Žižka
""".split()  # noqa: SIM905
_WORDS_FIRST = """
May Bill Will Mark Grace Rose Frank Hope Jack Art Rich Dawn Faith Joy June Olive Ivy Ruby Sky Chase Drew Pat Sue Rob
Nick Dale Glen Clay Heath Reed Chip Bob Gene Miles Grant Pierce Wade Penny Ginger Iris
""".split()  # noqa: SIM905
_WORDS_LAST = """
Cook Banks Field Stone Brown Green Young Long Short Small Hill Wood Park Rivers Day Knight King Price Cash Best Bond
Page Read Lane Bird Fox Wolf Rice Berry Marsh Waters Winter Frost Snow Church Bishop Hunt Farmer Baker Love
""".split()  # noqa: SIM905


class PlantedText(NamedTuple):
    """A text with an identifier in it.

    places: start and end (exclusive) of the identifier `value`, then those of other planted identifiers. source: the
    text without planted identifiers.
    """

    text: str
    value: str
    places: tuple[tuple[int, int], ...]
    source: str

    @property
    def start(self) -> int:
        """The index of the identifier's first character."""
        return self.places[0][0]


def shapes(kind: str) -> tuple[str, ...]:
    """Return the shapes in which a kind is planted, without the shapes of `LONG`, which all kinds share."""
    return (*_SHAPES, *_NAME_SHAPES) if kind == "name" else _SHAPES


def plant(texts: Sequence[str], kind: str, count: int, seed: int, shape: str = MIDDLE) -> list[PlantedText]:
    """Return `count` texts, drawn with replacement, each with an identifier of this kind and shape.

    Raises UserError for an unknown kind, and if a text already contains every value.
    """
    if kind not in CARRIERS:
        raise unknown("kind of identifier", kind, CARRIERS)
    draws = _Draws.named(seed, kind, shape)
    rows = []
    for source in draws.rng.integers(len(texts), size=count):
        text = texts[int(source)]
        pieces = draws.pieces(kind, shape, text)
        before, after = _around(text, draws.rng)
        rows.append(_joined(before, pieces, after, draws.rng, source=text))
    return rows


def plant_long(texts: Sequence[str], kinds: Sequence[str], count: int, seed: int) -> dict[str, list[PlantedText]]:
    """Return `count` long texts for each shape of `LONG`; each has one identifier of that shape.

    Kinds are planted in turn, so each shape has all kinds about equally often. One text serves two shapes if their
    places are far apart, since mechanisms are slow on long texts. Raises UserError as `plant` does.
    """
    rows: dict[str, list[PlantedText]] = {shape: [] for shape in LONG}
    for together in _TOGETHER:
        draws = _Draws.named(seed, *kinds, *together)
        for turn, source in enumerate(draws.rng.integers(len(texts), size=count)):
            text = _filler(texts, int(source))
            values, places = list[str](), list[tuple[int, int]]()
            for number, shape in enumerate(together):
                pieces = draws.pieces(kinds[(turn + number) % len(kinds)], shape, text)
                before, after = _around_long(text, LONG[shape], pieces[0])
                text = before + "".join(pieces) + after
                values.append(pieces[1])
                places.append((LONG[shape], LONG[shape] + len(pieces[1])))
            for number, shape in enumerate(together):
                ordered = (places[number], *places[:number], *places[number + 1 :])
                rows[shape].append(PlantedText(text, values[number], ordered, texts[int(source)]))
    return rows


@dataclass
class _Draws:
    """A source of random numbers and invented values. taken: the values used so far."""

    rng: np.random.Generator
    fake: Faker
    taken: set[str] = field(default_factory=set)

    @classmethod
    def named(cls, seed: int, *name: str) -> _Draws:
        """Return a source with a named random stream."""
        from faker import Faker

        rng = Noise.named(1, seed, "planted", *name).generator(0)
        fake = Faker("en_US")
        fake.seed_instance(int(rng.integers(2**63)))
        return cls(rng, fake)

    def pieces(self, kind: str, shape: str, text: str) -> list[str]:
        """Return the pieces of a sentence; those at odd indices are identifiers that the text does not contain."""
        carriers = CARRIERS[kind][shape if shape in (START, END) else MIDDLE]
        count = 3 if shape == SEVERAL else 1
        values = [_new(lambda: _value(self.fake, kind, shape), self.taken, text) for _ in range(count)]
        carrier = carriers[int(self.rng.integers(len(carriers)))]
        return _cased(_pieces(carrier, values, shape, self.rng), shape)


def _new(draw: Callable[[], str], taken: set[str], text: str) -> str:
    for tries in range(_TRIES):
        value = draw()
        if (tries >= _FRESH or value.casefold() not in taken) and not survives(value, text):
            taken.add(value.casefold())
            return value
    raise UserError(
        "a text already contains every identifier that could be planted in it; leave this text out", "EPS-A117"
    )


def _pieces(carrier: str, values: Sequence[str], shape: str, rng: np.random.Generator) -> list[str]:
    """Return the carrier sentence in pieces, with a value at every odd index."""
    head, tail = carrier.split("{}")
    around = {PUNCTUATION: _AROUND, EMOJI: _EMOJI_AROUND, TITLE: [f"{title}{{}}" for title in _TITLES]}.get(shape)
    if around is not None:
        left, right = around[int(rng.integers(len(around)))].split("{}")
        head, tail = head + left, right + tail
    between = [", ", " and "][-(len(values) - 1) :] if len(values) > 1 else []
    gaps = [head, *between, tail]
    return [part for gap, value in zip(gaps, [*values, ""], strict=True) for part in (gap, value)][:-1]


def _cased(pieces: Sequence[str], shape: str) -> list[str]:
    if shape == UPPER:
        return [piece.upper() for piece in pieces]
    return [piece.lower() if shape == LOWER else piece for piece in pieces]


def _joined(before: str, pieces: Sequence[str], after: str, rng: np.random.Generator, *, source: str) -> PlantedText:
    """Return the planted text. If there are several values, a random one is the identifier."""
    starts = np.cumsum([len(before), *map(len, pieces)]).tolist()
    places = [(starts[i], starts[i + 1]) for i in range(1, len(pieces), 2)]
    first = int(rng.integers(len(places)))
    ordered = (places[first], *places[:first], *places[first + 1 :])
    return PlantedText(before + "".join(pieces) + after, pieces[2 * first + 1], ordered, source)


def _around(text: str, rng: np.random.Generator) -> tuple[str, str]:
    """Split the text at a random place: between two sentences, before the first or after the last."""
    parts = sentences(text)
    at = int(rng.integers(len(parts) + 1))
    before = "".join(sentence + gap for sentence, gap in parts[:at])
    after = "".join(sentence + gap for sentence, gap in parts[at:])
    return before + (" " if before and not before[-1].isspace() else ""), (" " if after else "") + after


def _filler(texts: Sequence[str], source: int) -> str:
    """Return a long text: text number `source` and the texts after it, joined and truncated to _LENGTH."""
    parts: list[str] = []
    length, number = 0, source
    while length < _LENGTH:
        parts.append(texts[number % len(texts)])
        length += len(parts[-1]) + 1
        number += 1
    return " ".join(parts)[:_LENGTH]


def _around_long(filler: str, place: int, head: str) -> tuple[str, str]:
    """Split the filler so that the identifier of a sentence that begins with `head` is at `place`."""
    room = place - len(head)
    cut = filler.rfind(" ", 0, room)
    cut = cut if cut > 0 else room - 1
    return filler[:cut].ljust(room), " " + filler[cut:].lstrip()


def _value(fake: Faker, kind: str, shape: str) -> str:
    match kind:
        case "name":
            return _name(fake, shape)
        case "address":
            return f"{fake.street_address()}, {fake.city()}".replace("\n", ", ")
        case "e-mail address":
            return str(fake.ascii_safe_email())
        case "phone number":
            return str(fake.basic_phone_number())
        case "date":
            return str(fake.date(fake.random_element(("%d %B %Y", "%B %d, %Y", "%Y-%m-%d", "%d/%m/%Y"))))
        case "card number":
            return _grouped(str(fake.credit_card_number(fake.random_element(("visa16", "mastercard", "amex")))), fake)
        case "social security number":
            return str(fake.ssn())
        case "IP address":
            return str(fake.ipv4() if fake.boolean(75) else fake.ipv6())
        case _:
            return str(
                fake.bothify(fake.random_element(("#######", "??-######", "###-#######")), letters="ABCDEFGHJKLMN")
            )


def _grouped(number: str, fake: Faker) -> str:
    """Return a card number unchanged, or in groups with blanks or dashes between them."""
    sizes = (4, 6, 5) if len(number) == 15 else (4, 4, 4, 4)
    ends = np.cumsum(sizes).tolist()
    groups = [number[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return str(fake.random_element(("", " ", "-"))).join(groups)


def _name(fake: Faker, shape: str) -> str:
    first, last, pick = fake.first_name(), fake.last_name(), fake.random_element
    match shape:
        case "single name":
            return str(pick((first, last)))
        case "initials":
            return f"{first[0]}. {pick(('', f'{fake.random_uppercase_letter()}. '))}{last}"
        case "hyphen":
            return str(pick((f"{first}-{fake.first_name()} {last}", f"{first} {last}-{fake.last_name()}")))
        case "apostrophe":
            return f"{first} {pick(_BEFORE_APOSTROPHE)}{last}"
        case "non-ASCII letters":
            return f"{pick(_FOREIGN_FIRST)} {pick(_FOREIGN_LAST)}"
        case "name that is a word":
            return f"{pick(_WORDS_FIRST)} {pick(_WORDS_LAST)}"
        case _:
            return f"{first} {last}"
