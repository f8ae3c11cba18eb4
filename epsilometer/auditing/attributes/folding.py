"""Reversal of edits by an attacker who knows that letters were disguised, words split, and letters lost or swapped.

Words and their frequencies come from texts that the attacker has. The edits are undone in this order:

1. letters that look like Latin letters (`textbugger.HOMOGLYPHS`),
2. a space within a word, if the whole word is more frequent than the rarer of its parts,
3. in a word that the attacker's texts lack, a swap of two neighbouring inner letters or the loss of an inner letter, if
   the corrected word occurs in these texts; the most frequent corrected word is used.

TextBugger also replaces words by other words; these edits are not undone. A rare word may be changed to a more frequent
word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_lowercase

from epsilometer.mechanisms.anonymisers.shared.word_edits import in_case_of
from epsilometer.mechanisms.anonymisers.textbugger import HOMOGLYPHS
from epsilometer.text.words import places, words

_LATIN = {disguise: letter for letter, disguise in HOMOGLYPHS.items() if disguise > 127}


class Folding:
    """A function that undoes edits. texts: the texts whose words and frequencies it uses."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = Counter(word for text in texts for word in words(text))

    def fold(self, text: str) -> str:
        """Return the text with the edits undone; characters between words stay, except a space within a word."""
        text = text.translate(_LATIN)
        gaps: list[str] = []
        read: list[str] = []
        end = 0
        for start, stop in places(text):
            gap, word = text[end:start], text[start:stop]
            if gap == " " and read and self._is_one(read[-1], word):
                read[-1] += word
            else:
                gaps.append(gap)
                read.append(word)
            end = stop
        return "".join(gap + self._corrected(word) for gap, word in zip(gaps, read, strict=True)) + text[end:]

    def _is_one(self, first: str, second: str) -> bool:
        first, second = _counted_as(first), _counted_as(second)
        return self._counts[first + second] > min(self._counts[first], self._counts[second])

    def _corrected(self, word: str) -> str:
        lowered = _counted_as(word)
        if lowered in self._counts:
            return word
        best = max(_neighbours(lowered), key=lambda other: self._counts[other], default=lowered)
        return in_case_of(best, word) if self._counts[best] else word


def _counted_as(word: str) -> str:
    """Return a word in the normal form of `text.words`."""
    return word.lower().replace("’", "'")


def _neighbours(word: str) -> Iterator[str]:
    """Yield the words that become this word if two inner letters are swapped, or if an inner letter is lost."""
    for at in range(1, len(word) - 2):
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at in range(1, len(word)):
        yield from (word[:at] + letter + word[at:] for letter in ascii_lowercase)
