"""TEM, the truncated exponential mechanism on words (Carvalho, Vasiloudis, Feyisetan and Wang, SDM 2023).

In plain words it replaces each word by another, chosen at random and most often similar to it.

Words y within gamma of the private word x are candidates with score -d(x, y). All other words share one candidate with
score -gamma + (2 / epsilon) ln(number of these other words). If that candidate is chosen, one of the other words is
sampled uniformly. This is the exponential mechanism with the distance truncated at gamma,

    P(y | x) ~ exp(-epsilon / 2 min(d(x, y), gamma)),    gamma = (2 / epsilon) ln((1 - beta)(V - 1) / beta),

for V words, so the words beyond gamma together have a probability of at most beta. The truncated distances of y from x
and from x' differ by at most d(x, x'). So weight and normaliser each differ by a factor of at most
e^(epsilon / 2 d(x, x')), and P(y | x) <= e^(epsilon d(x, x')) P(y | x') for any gamma >= 0.

Assumptions: the claim is per word; d is the Euclidean distance of the raw vectors; texts are neighbours if they have
the same number of words; every word of the vocabulary can replace every word.

Departures: in the score of the other words, the reference code (sjmeis/MLDP 65a9eb8) uses V / (number of words within
gamma) instead of the number of other words. That is not an exponential mechanism, and breaks the claim. The reference
code rounds gamma to one decimal, and leaves out-of-vocabulary words unchanged; here such a word is first replaced by a
fixed word (`shared/vocabulary.py`). `as_published: true` uses the reference code's score and gamma, and makes the
claim, so that it can be refuted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.mechanisms.words.shared.kernel import KernelMechanism

_PART = 512  # words whose neighbours are searched at a time
_FEW = 1 / 16  # if at most this share of words is within gamma, all others share one computed weight


@component
class TEM(KernelMechanism):
    """TEM.

    beta: largest total probability of the words beyond gamma; as_published: True for the reference code's law.
    """

    beta: Annotated[float, Field(gt=0, lt=1)] = 0.001
    as_published: bool = False

    def gamma(self, epsilon: float) -> float:
        """Return gamma, the distance at which distances are truncated."""
        gamma = max(0.0, 2 / epsilon * math.log((1 - self.beta) * (len(self.vocabulary) - 1) / self.beta))
        return round(gamma, 1) if self.as_published else gamma

    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return the log-weights: -epsilon / 2 times the distance truncated at gamma."""
        return -epsilon / 2 * np.minimum(distances, self.gamma(epsilon))

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the base class's bound; None as published, since that law is not an exponential mechanism."""
        return None if self.as_published else super().excess_bound(epsilon)

    @cached_property
    def _inside(self) -> dict[float, NDArray[np.int64]]:
        """The number of words within gamma of each word, [V], by epsilon; 0 if not yet computed."""
        return defaultdict(lambda: np.zeros(len(self.vectors), np.int64))

    def _beyond(self, words: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return for private words [n] the log-weight of each word beyond gamma, [n]."""
        log_weight = np.full(len(words), -epsilon / 2 * self.gamma(epsilon))
        if not self.as_published:
            return log_weight
        size, inside = len(self.vectors), self._inside[epsilon][words]
        together = log_weight + np.log(size / inside)
        return np.where(inside < size, together - np.log(np.maximum(size - inside, 1)), -np.inf)

    def _log_weights(
        self, words: NDArray[np.integer], distances: NDArray[np.float64], epsilon: float
    ) -> NDArray[np.float64]:
        """Return the log-weights of outputs. As published, weights beyond gamma depend on `_inside`."""
        if not self.as_published:
            return self.log_weights(distances, epsilon)
        within = distances <= self.gamma(epsilon)
        if within.shape == (len(words), len(self.vectors)):
            self._inside[epsilon][words] = within.sum(axis=1)
        beyond = self._beyond(words, epsilon)
        return np.where(within, -epsilon / 2 * distances, beyond[:, None] if distances.ndim == 2 else beyond)

    def _blocks(
        self, words: NDArray[np.integer], epsilons: Sequence[float]
    ) -> Iterator[tuple[NDArray[np.integer], float, NDArray[np.float64]]]:
        """Yield block weights as the base class does; if few words are within gamma, compute only their weights."""
        reach, size = max(map(self.gamma, epsilons)), len(self.vectors)
        starts = np.arange(0, size, self.block)
        lengths = np.diff(starts, append=size)
        for start in range(0, len(words), _PART):
            part = words[start : start + _PART]
            row, word = self.vectors.near(part, reach)
            if len(row) > _FEW * len(part) * size:
                yield from super()._blocks(part, epsilons)
                continue
            distance = self.vectors.between(part[row], word)
            for epsilon in epsilons:
                within = distance <= self.gamma(epsilon)
                at = row[within]
                self._inside[epsilon][part] = np.bincount(at, minlength=len(part))
                beyond = np.exp(self._beyond(part, epsilon))  # the largest weight is 1, of the word itself
                more = np.exp(-epsilon / 2 * distance[within]) - beyond[at]
                place = at * len(starts) + word[within] // self.block
                blocks = beyond[:, None] * lengths
                blocks += np.bincount(place, more, blocks.size).reshape(blocks.shape)
                self._log_totals[epsilon][part] = np.log(blocks.sum(axis=1))
                yield part, epsilon, blocks
