"""Base class of mechanisms whose law depends on the distance of two words, with fast exact sampling by blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.laws import Laws, log_softmax, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism
from epsilometer.text.vectors import one_thread

_BLOCK = 32  # outputs per block, whose total probability is stored
_WHOLE = 1 << 28  # bytes; if all words' probabilities fit into a table of this size, each block is one output
_ROWS = 512  # words whose laws within a block are in memory at a time
_PART = 64  # words whose laws are computed at a time; fits into the processor's cache


@component
class KernelMechanism(WordVectorMechanism, OneOfGrid):
    """A mechanism with the law P(y | x) ~ exp(w(d(x, y))), whose weights depend only on the distance of two words.

    Words are sampled by inverse CDF from one uniform each. The vocabulary is divided into blocks, and the probabilities
    of all blocks are stored for every private word seen so far. Sampling first finds the block, then computes the law
    within that block. So a new word costs a pass over the vocabulary, and each sample costs the distances of one block.
    In a small vocabulary each block is one output, and a sample needs no distances.
    """

    @abstractmethod
    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return the log-weights w, elementwise, in nats."""

    @cached_property
    def outputs(self) -> NDArray[np.int64]:
        """The indices of the possible outputs; all words unless overridden."""
        return np.arange(len(self.vectors))

    @cached_property
    def block(self) -> int:
        """The number of outputs per block."""
        return 1 if 8 * len(self.vectors) * len(self.outputs) <= _WHOLE else _BLOCK

    @cached_property
    def _tables(self) -> dict[float, _Table]:
        return {}

    @cached_property
    def _log_totals(self) -> dict[float, NDArray[np.float64]]:
        """The natural logarithm of each word's normaliser, [V], by epsilon; NaN if not yet computed."""
        return {}

    def _log_weights(
        self, words: NDArray[np.integer], distances: NDArray[np.float64], epsilon: float
    ) -> NDArray[np.float64]:
        """Return the log-weights w of outputs. words: [n]; distances: [n] or [n, m], of the outputs from the words."""
        return self.log_weights(distances, epsilon)

    def _blocks(
        self, words: NDArray[np.integer], epsilons: Sequence[float]
    ) -> Iterator[tuple[NDArray[np.integer], float, NDArray[np.float64]]]:
        """Yield words [n], epsilon, and the total weight of each block, [n, blocks], up to a factor per word.

        Also stores the normalisers. The distances of a word are computed once for all epsilons.
        """
        among = None if len(self.outputs) == len(self.vectors) else self.outputs  # None avoids a copy
        starts = np.arange(0, len(self.outputs), self.block)
        for start in range(0, len(words), _PART):
            part = words[start : start + _PART]
            distances = self.vectors.distances(part, among)
            for epsilon in epsilons:
                log_weights = self._log_weights(part, distances, epsilon)
                largest = log_weights.max(axis=1, keepdims=True)
                weights = np.exp(log_weights - largest)
                self._log_totals[epsilon][part] = largest[:, 0] + np.log(weights.sum(axis=1))
                yield part, epsilon, weights if self.block == 1 else np.add.reduceat(weights, starts, axis=1)

    def _fill(self, words: NDArray[np.integer], epsilons: Sequence[float]) -> None:
        """Compute the missing rows of these words in the tables of these epsilons."""
        for epsilon in epsilons:
            self._tables.setdefault(epsilon, _Table(len(self.vectors), -(-len(self.outputs) // self.block)))
            self._log_totals.setdefault(epsilon, np.full(len(self.vectors), np.nan))
        met = np.unique(words)
        new = met[~np.all([self._tables[epsilon].filled[met] for epsilon in epsilons], axis=0)]
        for part, epsilon, blocks in self._blocks(new, epsilons):
            self._tables[epsilon].put(part, blocks)

    def log_normalisers(self, words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
        """Return, for each epsilon, ln of the sum over y of exp(w(d(x, y))) for each word x, [n]; cached."""
        for epsilon in epsilons:
            self._log_totals.setdefault(epsilon, np.full(len(self.vectors), np.nan))
        met = np.unique(words)
        new = met[np.any([np.isnan(self._log_totals[epsilon][met]) for epsilon in epsilons], axis=0)]
        for _ in self._blocks(new, epsilons):
            pass
        return (self._log_totals[epsilon][words] for epsilon in epsilons)

    def draw(self, words: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the words [n] sampled for words [n] by inverse CDF, with one uniform each."""
        self._fill(words, [epsilon])
        table, log_total = self._tables[epsilon], self._log_totals[epsilon]
        block, left = table.find(words, uniforms)
        if self.block == 1:
            return self.outputs[block].astype(np.int32)
        out = np.empty(len(words), np.int32)
        order = np.argsort(block, kind="stable")
        borders = np.searchsorted(block[order], np.arange(table.blocks + 1))
        with one_thread():
            for number in np.flatnonzero(np.diff(borders)):
                inside = self.outputs[number * self.block : (number + 1) * self.block]
                members = order[borders[number] : borders[number + 1]]
                for start in range(0, len(members), _ROWS):
                    part = members[start : start + _ROWS]
                    log_w = self._log_weights(words[part], self.vectors.distances(words[part], inside), epsilon)
                    cdf = np.cumsum(np.exp(log_w - log_total[words[part], None]), axis=1)
                    slot = (left[part, None] >= cdf).sum(axis=1)
                    out[part] = inside[np.minimum(slot, len(inside) - 1)]
        return out

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of the vocabulary."""

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            distances = self.vectors.distances(words)
            for epsilon in epsilons:
                yield log_softmax(self._log_weights(words, distances, epsilon))

        def entries(
            words: NDArray[np.integer], outputs: Sequence[NDArray[np.integer]], epsilons: Sequence[float]
        ) -> Iterator[NDArray[np.float64]]:
            log_totals = self.log_normalisers(words, epsilons)
            for output, epsilon, log_total in zip(outputs, epsilons, log_totals, strict=True):
                yield self._log_weights(words, self.vectors.between(words, output), epsilon) - log_total

        return Laws(
            self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities, entries, table=self._release_table
        )

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the largest |ln Z(x) - ln Z(x')| - epsilon / 2 d(x, x') over pairs of words.

        ln P(y | x) / P(y | x') <= epsilon / 2 d(x, x') + |ln Z(x) - ln Z(x')|, and the claim is epsilon d(x, x'). So
        the claim holds if the result is at most 0.
        """
        best, everything = -np.inf, np.arange(len(self.vectors))
        (log_total,) = self.log_normalisers(everything, [epsilon])
        for start in range(0, len(everything), 8 * _ROWS):
            part = everything[start : start + 8 * _ROWS]
            room = epsilon / 2 * self.vectors.distances(part)
            excess = np.abs(log_total[part, None] - log_total) - room
            excess[np.arange(len(part)), part] = -np.inf
            best = max(best, float(excess.max()))
        return best

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. The distances of each distinct word are computed once for all epsilons.

        Each word uses one uniform. A publication samples exactly from whole laws, since the tables of blocks contain
        rounded sums.
        """
        if any(noise.exact is not None for noise in noises):
            outputs = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
            return [self.written(texts, units) for units in outputs]
        private = self.vocabulary.encode(texts)
        self._fill(private.values, epsilons)
        results = []
        for epsilon, noise in zip(epsilons, noises, strict=True):
            words = self.draw(private.values, epsilon, noise.ragged(private.lengths)[:, 0])
            results.append(self.written(texts, Ragged(words, private.offsets)))
        return results


class _Table:
    """The cumulative probabilities of the blocks of outputs, for each stored private word.

    cumulative: [V, blocks], one row per stored word in order of entry; unused rows take no memory.
    place:      [V], the row of each word; -1 if the word is not stored.
    """

    def __init__(self, words: int, blocks: int) -> None:
        self.blocks = blocks
        self.place = np.full(words, -1)
        self.cumulative = np.empty((words, self.blocks))
        self._used = 0

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Bool [V]: True for words that have a row."""
        return self.place >= 0

    def put(self, words: NDArray[np.integer], blocks: NDArray[np.float64]) -> None:
        """Store the weights of blocks [n, blocks] for words [n], up to a factor per word. Stored words are skipped."""
        new = ~self.filled[words]
        words, blocks = words[new], blocks[new]
        self.place[words] = np.arange(self._used, self._used + len(words))
        rows = self.cumulative[self._used : self._used + len(words)]
        np.cumsum(blocks, axis=1, out=rows)
        rows /= blocks.sum(axis=1, keepdims=True)
        self._used += len(words)

    def find(
        self, words: NDArray[np.integer], uniforms: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the block [n] of each uniform, found by bisection, and the remaining probability [n] in the block."""
        rows, low, high = self.place[words], np.zeros(len(words), np.int64), np.full(len(words), self.blocks - 1)
        for _ in range(self.blocks.bit_length()):
            middle = (low + high) // 2
            beyond = (uniforms >= self.cumulative[rows, middle]) & (low < high)
            low, high = np.where(beyond, middle + 1, low), np.where(beyond, high, np.maximum(middle, low))
        before = np.where(low > 0, self.cumulative[rows, np.maximum(low - 1, 0)], 0.0)
        return low, uniforms - before
