"""Conversion of texts to rows of word indices and back, for many texts at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epsilometer.core.ragged import Ragged
from epsilometer.text.words import words as words_of


class Vocabulary:
    """A fixed, public list of words, numbered in order.

    `epsilometer.text.words` defines words. An out-of-vocabulary word is replaced by one fixed public word before any
    noise: "unknown" if that is in the vocabulary, else the first word.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.index = {word: number for number, word in enumerate(self.words)}
        self.unknown = self.index.get("unknown", 0)
        self._arrow = pa.array(self.words, pa.large_string())
        self._last: tuple[list[str], Ragged] | None = None  # texts and rows of the last call

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the word indices of each text, one row per text. Each distinct text is read once."""
        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        source = np.fromiter(map(distinct.__getitem__, texts), np.int64, len(texts))
        return self._read(list(distinct)).take(source)

    def _read(self, distinct: list[str]) -> Ragged:
        """Return word indices as `encode` does, for distinct texts. The last result is cached."""
        last = self._last  # read once, since another thread may replace it
        if last is None or last[0] != distinct:
            numbers: list[int] = []
            lengths = np.empty(len(distinct), np.int64)
            for place, text in enumerate(distinct):
                text_words = words_of(text)
                lengths[place] = len(text_words)
                numbers.extend(map(self.index.get, text_words, repeat(self.unknown)))
            last = distinct, Ragged.from_lengths(np.array(numbers, np.int64), lengths)
            self._last = last
        return last[1]

    def decode(self, rows: Ragged) -> list[str]:
        """Return each row as a text, with words joined by single spaces."""
        import pyarrow.compute as pc  # loads in a tenth of a second; only writing texts needs it

        spelled = self._arrow.take(pa.array(rows.values))
        joined = pc.binary_join(pa.LargeListArray.from_arrays(rows.offsets, spelled), pa.scalar(" ", spelled.type))
        return list(joined.to_pylist())

    def distance(
        self,
        texts: Sequence[str],
        pairs: NDArray[np.integer],
        between: Callable[[NDArray[np.integer], NDArray[np.integer]], NDArray[np.floating]],
    ) -> NDArray[np.float64]:
        """Return the distances of n pairs of texts, [n]: the sum over positions of the distances of the words there.

        The distance is infinite for different numbers of words. pairs: [n, 2], indices of texts; between: function that
        returns the distances [m] between words [m] and words [m].
        """
        units = self.encode(texts)
        equal = np.flatnonzero(units.lengths[pairs[:, 0]] == units.lengths[pairs[:, 1]])
        left, right = units.take(pairs[equal, 0]), units.take(pairs[equal, 1])
        total = np.full(len(pairs), np.inf)
        total[equal] = np.bincount(left.row_numbers, between(left.values, right.values), minlength=len(equal))
        return total
