"""Drafts: texts whose words a search changes one by one, and the windows and sentences around a word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from epsilometer.mechanisms.anonymisers.shared.in_step import Asker, Search, ask
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, edited

_CHARACTERS = 1 << 17  # largest total length of the texts that one search submits at once
_BEFORE, _AFTER = 4, 3  # words before and after a word in TextAttack's tagging window


@dataclass(eq=False)
class Draft:
    """A text that is being changed.

    owner:  the text's number in the ledger; rng: the text's random generator.
    edits:  the replacements so far, by position.
    answer: the true class if it is given, else the class that the classifier predicts for the original text.
    score:  1 - the probability of that class.
    fooled: True if the classifier now predicts another class; spared: True if the classifier already predicted another
    class for the original text.
    """

    owner: int
    spans: Spans
    rng: np.random.Generator
    edits: dict[int, str] = field(default_factory=dict)
    answer: int = 0
    score: float = 0.0
    fooled: bool = False
    spared: bool = False
    _answers: dict[tuple[Asker, Hashable], Any] = field(default_factory=dict)

    def text(self, swap: Mapping[int, str] | None = None) -> str:
        """Return the current text with further replacements by position."""
        return edited(self.spans, {**self.edits, **(swap or {})})

    def answers(self, asker: Asker, items: Sequence[Hashable]) -> Search[list[Any]]:
        """Return the asker's answers to these items. Each item is submitted once per search."""
        new = [item for item in dict.fromkeys(items) if (asker, item) not in self._answers]
        fresh = yield from ask(asker, new, self.at_once)
        self._answers.update(((asker, item), answer) for item, answer in zip(new, fresh, strict=True))
        return [self._answers[asker, item] for item in items]

    @property
    def at_once(self) -> int:
        """The number of edited texts to submit at once; smaller for a longer text."""
        return max(8, min(512, _CHARACTERS // (len(self.spans.text) + 1)))

    @cached_property
    def counted(self) -> list[int]:
        """The positions that count as words in windows: tokens with letters or digits."""
        return [i for i, token in enumerate(self.spans.tokens) if any(map(str.isalnum, token))]

    def window(self, position: int, width: int, edits: Mapping[int, str]) -> str:
        """Return the text of `width` words around a word, after these edits."""
        first = bisect_left(self.counted, position) - width // 2
        first = max(0, min(first, len(self.counted) - width))
        start, end = self.counted[first], self.counted[min(first + width, len(self.counted)) - 1]
        parts = list(self.spans.parts[2 * start + 1 : 2 * end + 2])
        for i, token in edits.items():
            if start <= i <= end:
                parts[2 * (i - start)] = token
        return "".join(parts)

    def near(self, position: int, width: int) -> list[int]:
        """Return this position, and the positions of changed words at most `width` words away from it."""
        place = bisect_left(self.counted, position)
        changed = [i for i in self.edits if abs(bisect_left(self.counted, i) - place) <= width]
        return [*changed, position]

    def sentence(self, position: int, edits: Mapping[int, str]) -> tuple[tuple[str, ...], int]:
        """Return the tokens of a word's sentence, after these edits, and the word's index in it."""
        places = next(places for places in self.spans.sentences if position in places)
        return tuple(edits.get(i, self.spans.tokens[i]) for i in places), position - places.start

    def context(self, position: int, token: str) -> tuple[tuple[str, ...], int]:
        """Return the original words around a position, with `token` at the position, and the first index of `token`."""
        place = bisect_left(self.counted, position)
        around = [self.spans.tokens[i] for i in self.counted[max(place - _BEFORE, 0) : place + _AFTER + 1]]
        around[min(place, _BEFORE)] = token
        return tuple(around), around.index(token)
