"""Base class of mechanisms that replace identifiers in a text by their kind, such as "<EMAIL_ADDRESS>".

The mechanisms are deterministic, so each distinct text is searched once. Overlapping spans are merged into one span
with the kind of the longest span. Adjacent spans of one kind are merged, too. The kind and place of each span stay
visible, and unrecognised identifiers are released unchanged, so nothing is claimed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from epsilometer.core.component import component
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.whole_rewrites import outcomes
from epsilometer.text.identifiers import LONGEST, expressions
from epsilometer.text.sentences import passages


class Span(NamedTuple):
    """An identifier: its kind, such as "phone number", and its first and last (exclusive) character."""

    kind: str
    start: int
    end: int


@component
class SpanMasker(ABC):
    """A mechanism that replaces the spans of identifiers in each text."""

    has_budget: ClassVar[bool] = False

    @abstractmethod
    def spans(self, text: str) -> list[Span]:
        """Return the spans to replace, in any order; they may overlap."""

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the texts with their spans replaced. epsilon and noise have no effect."""
        written = {text: replaced(text, self.spans(text)) for text in dict.fromkeys(texts)}
        rewrites = [written[text] for text in texts]
        status = [NOTHING if text == rewrite else FOUND for text, rewrite in zip(texts, rewrites, strict=True)]
        return Rewrites(rewrites, outcomes=outcomes(texts, rewrites, status, np.zeros(len(texts), np.int64)))


def replaced(text: str, spans: Sequence[Span]) -> str:
    """Return the text with each span replaced by its kind."""
    parts, end = [], 0
    for span in merged(spans):
        parts += [text[end : span.start], f"<{span.kind.upper().replace(' ', '_').replace('-', '')}>"]
        end = span.end
    return "".join([*parts, text[end:]])


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return the spans in order, merged as the module describes, and without empty spans."""
    rows: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        size = span.end - span.start
        last = rows[-1] if rows else None
        if last is not None and (span.start < last.end or (span.start == last.end and span.kind == last.kind)):
            kind = span.kind if size > longest else last.kind
            rows[-1] = Span(kind, last.start, max(last.end, span.end))
            longest = max(size, longest)
        elif size:
            rows.append(span)
            longest = size
    return rows


def by_expression(text: str, kinds: Sequence[str]) -> list[Span]:
    """Return the matches of these kinds' regular expressions, searched in passages of LONGEST characters."""
    return [
        Span(kind, first + match.start, first + match.end)
        for first, passage in passages(text, LONGEST)
        for kind in kinds
        for match in expressions()[kind].analyze(passage, expressions()[kind].supported_entities, None)
    ]


def chosen(kinds: Sequence[str] | None, every: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Return the kinds to mask. kinds: None for `usual`. Raises UserError for an unknown kind or an empty list."""
    if kinds is None:
        return [*usual]
    if not kinds:
        raise UserError(
            "kinds is empty, so nothing would be masked; list kinds, or omit kinds for the default", "EPS-M115"
        )
    for kind in kinds:
        if kind not in every:
            raise unknown("kind of identifier", kind, every)
    return list(dict.fromkeys(kinds))
