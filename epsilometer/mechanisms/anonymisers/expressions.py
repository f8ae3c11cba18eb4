"""Regular expressions: replaces addresses and numbers that match a pattern by the name of their kind.

In plain words it finds addresses and numbers by their form, and replaces them.

The expressions are Presidio's (`text.identifiers`): e-mail addresses with an existing top-level domain, phone numbers
of eight countries (libphonenumber), card numbers with Luhn's checksum, social security numbers of the United States, IP
addresses, and dates in digits. Names follow no pattern, so they are not replaced. Order numbers are replaced only if
`kinds` contains them. Nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import field_validator

from epsilometer.core.component import component
from epsilometer.mechanisms.anonymisers.shared.spans import Span, SpanMasker, by_expression, chosen

USUAL = ("e-mail address", "phone number", "card number", "social security number", "IP address", "date")
KINDS = (*USUAL, "order number")


@component
class Expressions(SpanMasker):
    """Regular expressions.

    kinds: the kinds to replace (e-mail address, phone number, card number, social security number, IP address, date,
    order number); None: all except order numbers.
    """

    kinds: Sequence[str] | None = None

    @field_validator("kinds")
    @classmethod
    def _exist(cls, value: Sequence[str] | None) -> Sequence[str] | None:
        return None if value is None else chosen(value, KINDS, USUAL)

    def spans(self, text: str) -> list[Span]:
        """Return the matches of the regular expressions in a text."""
        return by_expression(text, self.kinds or USUAL)
