"""Edits of a text that replace whole words and change no other byte.

A text is split into tokens (`models.tagging.words_and_marks`): words, where a contraction is one word, and single
punctuation marks. A word is replaced as a token, by its position. Replacing a string instead would also change words
that contain it, such as "is" in "this".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from epsilometer.models import tagging


@dataclass(frozen=True)
class Spans:
    """The n tokens of a text: words and punctuation marks.

    starts, ends: [n], first and last (exclusive) character of each token.
    tokens:       [n], the tokens as strings.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    tokens: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The positions of tokens with letters."""
        return tuple(i for i, token in enumerate(self.tokens) if any(map(str.isalpha, token)))

    @cached_property
    def places(self) -> Mapping[str, tuple[int, ...]]:
        """The positions of each word, by the word in lower case."""
        positions: dict[str, list[int]] = {}
        for i in self.words:
            positions.setdefault(self.tokens[i].lower(), []).append(i)
        return {word: tuple(of_word) for word, of_word in positions.items()}

    @cached_property
    def sentences(self) -> tuple[range, ...]:
        """The positions of each sentence's tokens (`models.tagging.sentences`), without closing marks after its end."""
        positions, at, first = [], 0, 0
        for sentence in tagging.sentences(self.text):
            at = self.text.index(sentence, at)
            first = bisect_left(self.starts, at, lo=first)
            at += len(sentence)
            positions.append(range(first, bisect_left(self.starts, at, lo=first)))
        return tuple(positions)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The 2 n + 1 parts of the text: gap, token, gap, ..., token, gap."""
        cuts = [0, *(cut for span in zip(self.starts, self.ends, strict=True) for cut in span), len(self.text)]
        return tuple(self.text[a:b] for a, b in pairwise(cuts))


def spans(text: str) -> Spans:
    """Return the tokens of a text, with their character ranges."""
    cuts = list(tagging.places(text))
    return Spans(
        text,
        starts=tuple(start for start, _ in cuts),
        ends=tuple(end for _, end in cuts),
        tokens=tuple(text[start:end] for start, end in cuts),
    )


def edited(spans: Spans, replacements: Mapping[int, str]) -> str:
    """Return the text with the tokens at these positions replaced, and all other characters unchanged."""
    parts = list(spans.parts)
    for position, token in replacements.items():
        parts[2 * position + 1] = token
    return "".join(parts)


def occurrences(spans: Spans, word: str) -> tuple[int, ...]:
    """Return the positions at which a word is a whole token, ignoring case."""
    return spans.places.get(word.lower(), ())


def is_word(token: str) -> bool:
    """Return True if a string is one token with letters. "co-op" is three tokens, and "42" has no letters."""
    return list(tagging.places(token)) == [(0, len(token))] and any(map(str.isalpha, token))


def in_case_of(word: str, model: str) -> str:
    """Return a word in the letter case of `model`: all capitals, a capital first, or unchanged."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
