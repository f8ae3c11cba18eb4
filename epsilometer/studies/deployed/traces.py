"""Detection of planted values in a service's output: unchanged, encoded, or split over the events of a stream."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

from epsilometer.text import identifier_matching

_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
LONG = 10  # a sequence of at least this many letters and digits does not occur by chance
_START = 5  # leading letters and digits that index a value; every planted value has at least as many
_EVENT = re.compile(r"^data: ?(.*)$", re.MULTILINE)


def readings(content: str) -> list[str]:
    """Return the versions of a header or a body in which planted values may occur.

    They are: the content, the content decoded, the strings of its JSON, and the joined pieces of a stream.
    """
    versions = [*identifier_matching.readings(content), unquote_plus(content)]
    for match in _ENCODED.findall(content):
        try:
            versions.append(base64.b64decode(match.translate(str.maketrans("-_", "+/")) + "==").decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    values = [value for text in [content, *_EVENT.findall(content)] if (value := _json(text)) is not None]
    pieces: dict[str, list[str]] = defaultdict(list)
    for value in values:
        for place, text in _strings(value, ""):
            pieces[place].append(text)
    return [*versions, *("".join(parts) for parts in pieces.values()), "".join(_EVENT.findall(content))]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _strings(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _strings(part, f"{place}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part, f"{place}[]")


class PlantedValues:
    """An index of planted values. The time to search a text does not grow with the number of values."""

    def __init__(self, values: Iterable[str]) -> None:
        self._by_start: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for value in values:
            for key in identifier_matching.keys(value):
                self._by_start[key[:_START]].append((key, value))

    def among(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the planted values that occur in one of the texts.

        A value of `LONG` letters and digits or more may occur anywhere, also inside words. A shorter value counts if it
        survives by the rules of `text.identifier_matching`.
        """
        standing = set()
        for text in dict.fromkeys(texts):
            joined = identifier_matching.squeezed(text)
            starts = {joined[i : i + _START] for i in range(len(joined) - _START + 1)}
            for start in self._by_start.keys() & starts:
                for key, value in self._by_start[start]:
                    if key in joined and (len(key) >= LONG or identifier_matching.survives(value, text)):
                        standing.add(value)
        return frozenset(standing)
