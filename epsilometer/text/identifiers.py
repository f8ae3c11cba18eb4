"""Identifiers that follow a pattern, and their places in a text, by Presidio's recognisers.

`matches` finds e-mail addresses, phone numbers of eight countries, and order numbers. An order number consists of 6 to
20 letters, digits and dashes. It has at least two digits and no four letters in a row, and is not a date. Names are not
found, since they follow no pattern. `expressions` also has recognisers of card numbers (with Luhn's checksum), social
security numbers of the United States, IP addresses and dates.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from epsilometer.text.sentences import passages

LONGEST = 10_000  # characters searched at a time; longer texts are split into passages

_ORDER = (
    r"(?<![\w@.+$€£-])(?=[a-z0-9-]{6,20}(?![a-z0-9-]))(?=(?:[a-z-]*\d){2})(?![a-z0-9-]*[a-z]{4})"
    r"[a-z0-9]+(?:-[a-z0-9]+)*(?![\w@])"
)
_WORTH_A_LOOK = re.compile(r"@|\d.*\d", re.DOTALL)  # every match of a recogniser contains a match of this pattern


class Match(NamedTuple):
    """An identifier: its kind, such as "phone number", and its first and last (exclusive) character."""

    kind: str
    start: int
    end: int


def matches(texts: Sequence[str]) -> list[list[Match]]:
    """Return the identifiers in each text. If matches overlap, the match of the first recogniser is returned."""
    return [
        [
            Match(kind, first + start, first + end)
            for first, passage in passages(text, LONGEST)
            for kind, start, end in _of_passage(passage)
        ]
        for text in texts
    ]


def _of_passage(text: str) -> list[Match]:
    taken: list[tuple[int, int]] = []
    row: list[Match] = []
    if _WORTH_A_LOOK.search(text):
        for kind, recogniser in recognisers():
            results = recogniser.analyze(text, recogniser.supported_entities, None)
            for match in sorted(results, key=lambda result: (result.start, -result.end)):
                if any(match.start < end and start < match.end for start, end in taken):
                    continue
                taken.append((match.start, match.end))
                if kind is not None:
                    row.append(Match(kind, match.start, match.end))
    return row


@cache
def recognisers() -> list[tuple[str | None, Any]]:
    """Return pairs of kind and recogniser, in order of precedence. Dates have the kind None: they are not reported."""
    by_kind = expressions()
    return [
        ("e-mail address", by_kind["e-mail address"]),
        (None, by_kind["date"]),
        ("phone number", by_kind["phone number"]),
        ("order number", by_kind["order number"]),
    ]


@cache
def expressions() -> dict[str, Any]:
    """Return the Presidio recogniser of each kind of identifier."""
    with _without_transformers():
        import tldextract
        from presidio_analyzer import Pattern, PatternRecognizer
        from presidio_analyzer.predefined_recognizers import (
            CreditCardRecognizer,
            DateRecognizer,
            EmailRecognizer,
            IpRecognizer,
            PhoneRecognizer,
            UsSsnRecognizer,
        )

    domains = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)  # the packaged list, no network

    class Email(EmailRecognizer):
        """Presidio's e-mail recogniser with the packaged list of domains, since the default would download a list."""

        def validate_result(self, pattern_text: str) -> bool:
            return bool(domains(pattern_text).fqdn)

    order = PatternRecognizer(supported_entity="ORDER_NUMBER", patterns=[Pattern("order number", _ORDER, 0.5)])
    return {
        "e-mail address": Email(),
        "phone number": PhoneRecognizer(),
        "card number": CreditCardRecognizer(),
        "social security number": UsSsnRecognizer(),
        "IP address": IpRecognizer(),
        "date": DateRecognizer(),
        "order number": order,
    }


@contextmanager
def _without_transformers() -> Iterator[None]:
    """Hide transformers from Presidio: its neural engines, unused here, would take 5 seconds to import transformers."""
    hidden = "transformers" not in sys.modules
    if hidden:
        sys.modules["transformers"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["transformers"]
