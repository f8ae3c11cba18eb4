"""Candidate replacements of a word: the words whose vectors have the largest cosines with the word's vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.word_edits import is_word
from epsilometer.text.vectors import WordVectors


class NearestWords:
    """Nearest neighbours among lower-case words that are one token in a text.

    vectors: word vectors; entries that are not such words are ignored. Raises UserError for a vector of length 0.
    """

    def __init__(self, vectors: WordVectors) -> None:
        vectors = vectors.whole_words()
        whole = np.array([is_word(word) for word in vectors.words])
        words = [word for word, is_whole in zip(vectors.words, whole, strict=True) if is_whole]
        self._vectors = WordVectors(words, vectors.vectors[whole]).normalised()
        self._number = {word: i for i, word in enumerate(words)}
        self._nearest: dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    def has(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """Return [n]: True for each word with a vector, ignoring case."""
        return np.array([word.lower() in self._number for word in words], bool)

    def of(self, words: Sequence[str], k: int, least: float = -1.0) -> list[list[str]]:
        """Return the k nearest other words of each word, nearest first, without words whose cosine is below `least`.

        Ties go to the first word in the vocabulary. A word without a vector has no neighbours.
        """
        numbers = [self._number.get(word.lower()) for word in words]
        self._find([number for number in numbers if number is not None and (number, k) not in self._nearest], k)
        return [[] if number is None else self._near(number, k, least) for number in numbers]

    def _near(self, number: int, k: int, least: float) -> list[str]:
        near, cosines = self._nearest[number, k]
        return [self._vectors.words[i] for i in near[cosines >= least]]

    def _find(self, numbers: Sequence[int], k: int) -> None:
        """Compute and cache the k nearest words of each word, with their cosines."""
        new = np.unique(np.array(numbers, np.int64))
        count = min(k + 1, len(self._vectors))
        nearest, far = self._vectors.neighbours(self._vectors.exact[new], count)
        for number, near, distance in zip(new.tolist(), nearest, far, strict=True):
            others = np.flatnonzero(near != number)[:k]
            self._nearest[number, k] = near[others], 1 - distance[others] ** 2 / 2
