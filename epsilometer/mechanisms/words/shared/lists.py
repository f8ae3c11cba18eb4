"""Greedy one-dimensional word lists: orders a vocabulary so that neighbours in the list have similar meanings.

This is algorithm 1 of Meisenbacher, Chevli and Matthes, "1-Diffractor", IWSPA 2024: start at a random word, append the
nearest unused word, and repeat. The search is exact and Euclidean. Among equally near words, the search takes the first
in the vocabulary. (The reference code searches approximately, and jumps to an arbitrary word if a word's 50 neighbours
are all used.) All lists contain the same vocabulary, the intersection of the sources' vocabularies. Otherwise an output
could exclude an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.core.randomness import Noise
from epsilometer.text.vectors import WordVectors, read_arrays, rounding, write_arrays

_BLOCK = 256  # rows of scores in memory at a time


@dataclass(frozen=True)
class WordLists:
    """One-dimensional lists of one vocabulary.

    words: [V]; order: int32 [lists, V], the index of the word at each place of each list.
    """

    words: list[str]
    order: NDArray[np.int32]

    @cached_property
    def place(self) -> NDArray[np.int32]:
        """The place of each word in each list, int32 [lists, V]: the inverse of `order`."""
        return np.argsort(self.order, axis=1).astype(np.int32)

    @classmethod
    def build(cls, sources: Sequence[WordVectors], lists: int = 1, seed: int = 0) -> WordLists:
        """Build `lists` lists from each source, with different random start words. seed: seed of the start words."""
        shared = set(sources[0].words).intersection(*(source.words for source in sources[1:]))
        words = [word for word in sources[0].whole_words().words if word in shared]
        if len(words) < 2:
            raise UserError(
                f"the {len(sources)} sources of word vectors share {len(words)} words, fewer than the 2 a list needs; "
                "give vectors of one language and one spelling",
                "EPS-M087",
            )
        if not 1 <= lists <= len(words):
            raise UserError(
                f"the number of lists must be from 1 to {len(words)}, the number of words that all word vectors share, "
                f"got {lists}",
                "EPS-M088",
            )
        orders = []
        for number, source in enumerate(sources):
            index = {word: i for i, word in enumerate(source.words)}
            start = np.argsort(Noise.named(1, "lists", seed, number).uniforms(len(words))[0])[:lists]
            orders.append(greedy(source.exact[[index[word] for word in words]], start))
        return cls(words, np.concatenate(orders))

    @classmethod
    def load(cls, path: Path | str) -> WordLists:
        """Read a file that `save` wrote. Raises UserError for other or damaged files."""
        if not Path(path).is_file():
            raise UserError(f"file {str(path)!r} not found; give the path of an npz archive of word lists", "EPS-M089")
        words, order = read_arrays(Path(path), "words", "order")
        if order.ndim != 2 or not len(order) or (np.sort(order, axis=1) != np.arange(len(words))).any():
            raise UserError(
                f"{path} is damaged: each list must contain each of its {len(words)} words once; build it again",
                "EPS-M090",
            )
        return cls(words.tolist(), order)

    def take(self, numbers: Sequence[int]) -> WordLists:
        """Return only the lists with these indices. Raises UserError for no, duplicate or unknown indices."""
        if not numbers or len({*numbers}) < len(numbers) or max(numbers) >= len(self.order):
            raise UserError(
                f"lists_used must contain distinct numbers of the {len(self.order)} lists, from 0 to "
                f"{len(self.order) - 1}, got {listed(numbers, 'list')}",
                "EPS-M091",
            )
        return WordLists(self.words, self.order[list(numbers)])

    def first(self, count: int) -> WordLists:
        """Return the lists restricted to the first `count` words."""
        return WordLists(self.words[:count], self.order[self.order < count].reshape(len(self.order), -1))

    def save(self, path: Path | str) -> None:
        """Write an npz archive (`words`, `order`). Equal lists give equal bytes."""
        write_arrays(path, words=np.array(self.words), order=self.order)


def greedy(vectors: NDArray[np.float64], starts: NDArray[np.integer], neighbours: int = 256) -> NDArray[np.int32]:
    """Return nearest-neighbour chains through all vectors [V, d], one from each start [lists]: int32 [lists, V].

    neighbours: approximate number of neighbours of each vector that are computed in advance for all chains. It affects
    only the speed: if all neighbours of a chain's last word are used, all remaining words are searched.
    """
    single = vectors.astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    half = (norms**2 / 2).astype(np.float32)  # |y|^2 / 2 - x.y orders the y by their distance from x
    slack = rounding(norms, norms.max(), vectors.shape[1])
    near = _neighbourhoods(single, half, neighbours)

    def nearest(word: int, candidates: NDArray[np.integer]) -> int:
        candidates = np.sort(candidates)
        difference = vectors[candidates] - vectors[word]
        return int(candidates[np.argmin(np.einsum("ij,ij->i", difference, difference))])

    def chain(start: int) -> Iterator[int]:
        word, unused = start, np.ones(len(vectors), bool)
        left, left_single, left_half = np.arange(len(vectors), dtype=np.int32), single, half
        for remaining in range(len(vectors) - 1, -1, -1):
            yield word
            unused[word] = False
            if not remaining:
                return
            close, scores, reach = near[word]
            free = unused[close]
            close, scores = close[free], scores[free]
            # `near` has all words within `reach`. If the nearest unused word may be farther, search all unused words.
            if not len(scores) or scores[0] + slack[word] > reach:
                if remaining < 0.9 * len(left):
                    still = unused[left]
                    left, left_single, left_half = left[still], left_single[still], left_half[still]
                # einsum uses one thread; distributing such a small matrix product over threads would take longer.
                close = left
                scores = left_half - np.einsum("ij,j->i", left_single, single[word])
                scores[~unused[left]] = np.inf
            word = nearest(word, close[scores <= scores.min() + slack[word]])

    return np.array([list(chain(int(start))) for start in starts], np.int32)


def _neighbourhoods(
    single: NDArray[np.float32], half: NDArray[np.float32], count: int
) -> list[tuple[NDArray[np.int32], NDArray[np.float32], np.float32]]:
    """Return for each vector its neighbours in order of score, their scores, and its reach, the largest allowed score.

    The score of y is half - x.y, as in `greedy`. The reach is estimated from a sample of the vectors, so that a vector
    has about `count` neighbours.
    """
    neighbourhoods = []
    step = max(1, len(single) // 1024)
    for start in range(0, len(single), _BLOCK):
        scores = half - single[start : start + _BLOCK] @ single.T
        sample = scores[:, ::step]
        rank = min(count // step, sample.shape[1] - 1)
        reach = np.partition(sample, rank, axis=1)[:, rank]
        row, column = np.divmod(np.flatnonzero(scores <= reach[:, None]), len(single))
        score = scores[row, column]
        by_score = np.lexsort((score, row))
        borders = np.searchsorted(row, np.arange(len(scores) + 1))
        column, score = column[by_score].astype(np.int32), score[by_score]
        neighbourhoods += [
            (column[a:b], score[a:b], limit) for a, b, limit in zip(borders[:-1], borders[1:], reach, strict=True)
        ]
    return neighbourhoods
