"""A mechanism with a law that depends on the distance of two words: sampled by blocks, exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from epsilometer.component import component
from epsilometer.language.word_mechanism import WordVectorMechanism
from epsilometer.laws import Laws, sample
from epsilometer.mechanism import Rewrites
from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise

_BLOCK = 32  # outputs whose probability is kept as one number
_ROWS = 512  # words whose laws within a block are in memory at a time
_CELLS = 1 << 21  # distances in memory at a time while a table is filled


@component
class KernelMechanism(WordVectorMechanism, ABC):
    """P(y | x) ~ exp(w(d(x, y))): a law whose weights depend on the distance of two words and on nothing else.

    Draws are inverse CDFs from one uniform a word. The vocabulary is cut into blocks, and for every private word that
    was ever met the probability of each block is kept: a draw finds its block there and computes the law within the
    block alone. So a word costs the vocabulary once, its every occurrence some 64 distances.
    """

    @abstractmethod
    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """w: elementwise, in nats."""

    @cached_property
    def outputs(self) -> NDArray[np.int64]:
        """The words that can come out: all, where nothing else is said."""
        return np.arange(len(self.vectors))

    @cached_property
    def _tables(self) -> dict[float, _Table]:
        return {}

    def _fill(self, words: NDArray[np.integer], epsilons: Sequence[float]) -> None:
        """Make the tables of these epsilons hold these words; the distances of a word are computed once for all."""
        for epsilon in epsilons:
            self._tables.setdefault(epsilon, _Table(len(self.vectors), len(self.outputs)))
        met = np.unique(words)
        new = met[~np.all([self._tables[epsilon].known[met] for epsilon in epsilons], axis=0)]
        step = max(_ROWS, _CELLS // len(self.outputs))
        for start in range(0, len(new), step):
            part = new[start : start + step]
            distances = self.vectors.distances(part, self.outputs)
            for epsilon in epsilons:
                self._tables[epsilon].put(part, self.log_weights(distances, epsilon))

    def draw(self, words: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        """[n] words drawn for words [n] by inverse CDF, from one uniform each."""
        self._fill(words, [epsilon])
        table = self._tables[epsilon]
        block, left = table.find(words, uniforms)
        out = np.empty(len(words), np.int32)
        order = np.argsort(block, kind="stable")
        borders = np.searchsorted(block[order], np.arange(table.blocks + 1))
        for number in np.flatnonzero(np.diff(borders)):
            inside = self.outputs[number * _BLOCK : (number + 1) * _BLOCK]
            members = order[borders[number] : borders[number + 1]]
            for start in range(0, len(members), _ROWS):
                part = members[start : start + _ROWS]
                log_w = self.log_weights(self.vectors.distances(words[part], inside), epsilon)
                cdf = np.cumsum(np.exp(log_w - table.log_total[words[part], None]), axis=1)
                found = (left[part, None] >= cdf).sum(axis=1)
                out[part] = inside[np.minimum(found, len(inside) - 1)]
        return out

    def laws(self, texts: Sequence[str]) -> Laws:
        """A row for each word of the vocabulary."""

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            distances = self.vectors.distances(words)
            for epsilon in epsilons:
                yield log_softmax(self.log_weights(distances, epsilon), axis=1)

        def entries(
            words: NDArray[np.integer], outputs: Sequence[NDArray[np.integer]], epsilons: Sequence[float]
        ) -> Iterator[NDArray[np.float64]]:
            self._fill(words, epsilons)  # a word's normaliser is the same in every trial
            for drawn, epsilon in zip(outputs, epsilons, strict=True):
                weights = self.log_weights(self.vectors.between(words, drawn), epsilon)
                yield weights - self._tables[epsilon].log_total[words]

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities, entries)

    def excess_bound(self, epsilon: float) -> float | None:
        """Where weights change by at most epsilon / 2 times the distance: ln of two normalisers' ratio beyond the rest.

        ln P(y | x) / P(y | x') <= epsilon / 2 d(x, x') + |ln Z(x) - ln Z(x')|, and the claim is epsilon d(x, x').
        """
        log_total = self.log_normalisers(epsilon)
        best, everything = -np.inf, np.arange(len(self.vectors))
        for start in range(0, len(everything), 8 * _ROWS):
            part = everything[start : start + 8 * _ROWS]
            room = epsilon / 2 * self.vectors.distances(part)
            excess = np.abs(log_total[part, None] - log_total) - room
            excess[np.arange(len(part)), part] = -np.inf
            best = max(best, float(excess.max()))
        return best

    def log_normalisers(self, epsilon: float) -> NDArray[np.float64]:
        """[V]: ln of the sum over y of exp(w(d(x, y))), for every word x of the vocabulary."""
        everything = np.arange(len(self.vectors))
        self._fill(everything, [epsilon])
        return self._tables[epsilon].log_total

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One epsilon of `rewrite_grid`."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """One uniform a word; the distances from each distinct word are computed once for all epsilons.

        A release draws from whole laws, exactly: the tables hold rounded sums.
        """
        if any(noise.exact is not None for noise in noises):
            drawn = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
            return [self.written(texts, units) for units in drawn]
        private = self.vocabulary.encode(texts)
        self._fill(private.values, epsilons)
        made = []
        for epsilon, noise in zip(epsilons, noises, strict=True):
            words = self.draw(private.values, epsilon, noise.ragged(private.lengths)[:, 0])
            made.append(self.written(texts, Ragged(words, private.offsets)))
        return made


class _Table:
    """Of each private word: the logarithm of its normaliser, and the probability of every block of outputs, summed up.

    known: bool [V]; log_total: [V]; cumulative: [V, blocks], rows of unknown words not written (nor given memory).
    """

    def __init__(self, words: int, outputs: int) -> None:
        self.starts = np.arange(0, outputs, _BLOCK)
        self.blocks = len(self.starts)
        self.known = np.zeros(words, bool)
        self.log_total = np.full(words, np.nan)
        self.cumulative = np.empty((words, self.blocks))

    def put(self, words: NDArray[np.integer], log_weights: NDArray[np.float64]) -> None:
        """Enter the weights [n, outputs] of words [n]."""
        largest = log_weights.max(axis=1, keepdims=True)
        blocks = np.add.reduceat(np.exp(log_weights - largest), self.starts, axis=1)
        total = blocks.sum(axis=1)
        self.log_total[words] = largest[:, 0] + np.log(total)
        self.cumulative[words] = np.cumsum(blocks, axis=1) / total[:, None]
        self.known[words] = True

    def find(
        self, words: NDArray[np.integer], uniforms: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Bisection: the block [n] that each uniform falls into, and how far into it [n], in probability."""
        low, high = np.zeros(len(words), np.int64), np.full(len(words), self.blocks - 1)
        for _ in range(self.blocks.bit_length()):
            middle = (low + high) // 2
            beyond = (uniforms >= self.cumulative[words, middle]) & (low < high)
            low, high = np.where(beyond, middle + 1, low), np.where(beyond, high, np.maximum(middle, low))
        before = np.where(low > 0, self.cumulative[words, np.maximum(low - 1, 0)], 0.0)
        return low, uniforms - before
