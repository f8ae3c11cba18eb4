"""Edits of a text as sets of replaced words; everything between and around them stays byte for byte as it was.

A text consists of words and marks by the tagger's rule (`models.tagging.words_and_marks`): contractions are one word,
and every other mark is a token of its own. A word is replaced as a whole token, by its position. Replacing characters
instead would change words that merely contain it: "is" in "this".
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
    """A text's n words and marks.

    starts, ends: [n], the place of each one's first character, and of the one after its last.
    tokens:       [n], the words and marks themselves.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    tokens: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The positions of tokens with letters; marks and numbers have none."""
        return tuple(i for i, token in enumerate(self.tokens) if any(map(str.isalpha, token)))

    @cached_property
    def places(self) -> Mapping[str, tuple[int, ...]]:
        """The positions of each word, given in lower case."""
        positions: dict[str, list[int]] = {}
        for i in self.words:
            positions.setdefault(self.tokens[i].lower(), []).append(i)
        return {word: tuple(of_word) for word, of_word in positions.items()}

    @cached_property
    def sentences(self) -> tuple[range, ...]:
        """The positions in each sentence by the tagger's rule, which leaves out closing marks after the stop."""
        positions, at, first = [], 0, 0
        for sentence in tagging.sentences(self.text):
            at = self.text.index(sentence, at)
            first = bisect_left(self.starts, at, lo=first)
            at += len(sentence)
            positions.append(range(first, bisect_left(self.starts, at, lo=first)))
        return tuple(positions)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The 2 n + 1 parts of the text, cut before and after every token: gap, token, gap, ..., token, gap."""
        cuts = [0, *(cut for span in zip(self.starts, self.ends, strict=True) for cut in span), len(self.text)]
        return tuple(self.text[a:b] for a, b in pairwise(cuts))


def spans(text: str) -> Spans:
    """Returns the words and marks of a text, with their places."""
    cuts = list(tagging.places(text))
    return Spans(
        text,
        starts=tuple(start for start, _ in cuts),
        ends=tuple(end for _, end in cuts),
        tokens=tuple(text[start:end] for start, end in cuts),
    )


def edited(spans: Spans, replacements: Mapping[int, str]) -> str:
    """Returns the text with other tokens at these positions, and every other character as it was."""
    parts = list(spans.parts)
    for position, token in replacements.items():
        parts[2 * position + 1] = token
    return "".join(parts)


def occurrences(spans: Spans, word: str) -> tuple[int, ...]:
    """Returns the positions at which a word is a whole token, in any case."""
    return spans.places.get(word.lower(), ())


def is_word(token: str) -> bool:
    """Returns whether a text holds this as one token with letters: "co-op" would be three tokens, "42" has none."""
    return list(tagging.places(token)) == [(0, len(token))] and any(map(str.isalpha, token))


def in_case_of(word: str, model: str) -> str:
    """Returns a word in the case of `model`: all capitals (of two or more), or a capital first; otherwise as it is."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
