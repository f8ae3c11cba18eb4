"""TEM, the truncated exponential mechanism on words (Carvalho, Vasiloudis, Feyisetan and Wang, SDM 2023).

Words within gamma of the private word x compete with score -d(x, y); all others share one more candidate with score
-gamma + (2 / epsilon) ln(number of words outside), which stands for a uniform draw among them. That is the exponential
mechanism with the distance cut off at gamma,

    P(y | x) ~ exp(-epsilon / 2 min(d(x, y), gamma)),    gamma = (2 / epsilon) ln((1 - beta)(V - 1) / beta),

so the words beyond gamma together have probability at most beta. The cut distance changes by at most d(x, x') with x,
and so does the normaliser's logarithm: P(y | x) <= e^(epsilon d(x, x')) P(y | x'), for any gamma >= 0.

Assumptions: epsilon belongs to a word; d is the Euclidean distance of the raw vectors; texts are neighbours if they
have equally many words; every word of the vocabulary can come out for every word.

Departures. The released code (sjmeis/MLDP 65a9eb8) scores the rest with ln(V / words inside), which is no exponential
mechanism and breaks the claim, rounds gamma to one decimal, and lets words outside the vocabulary through unchanged;
here such a word becomes a fixed word first (`epsilometer.language.vocabulary`). `published: true` has the release's
score and gamma, and its claim, so that it can be seen to fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import log_softmax

from epsilometer.component import component
from epsilometer.language.kernel_mechanism import KernelMechanism
from epsilometer.laws import Laws, sample
from epsilometer.mechanism import Rewrites
from epsilometer.randomness import Noise


@component
class TEM(KernelMechanism):
    """beta: the largest probability of leaving the ball of radius gamma; published: the release's law."""

    beta: Annotated[float, Field(gt=0, lt=1)] = 0.001
    published: bool = False

    def gamma(self, epsilon: float) -> float:
        """Where the distance is cut off."""
        return max(0.0, 2 / epsilon * math.log((1 - self.beta) * (len(self.vocabulary) - 1) / self.beta))

    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """-epsilon / 2 times the distance, cut off at gamma."""
        return -epsilon / 2 * np.minimum(distances, self.gamma(epsilon))

    def excess_bound(self, epsilon: float) -> float | None:
        """From the normalisers of the exponential mechanism, which the release's law is not."""
        return None if self.published else super().excess_bound(epsilon)

    def laws(self, texts: Sequence[str]) -> Laws:
        """A row for each word of the vocabulary."""
        return self._published_laws(texts) if self.published else super().laws(texts)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """One uniform a word; the distances from each distinct word are computed once for all epsilons."""
        if not self.published:
            return super().rewrite_grid(texts, epsilons, noises)
        drawn = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
        return [self.written(texts, units) for units in drawn]

    def _published_laws(self, texts: Sequence[str]) -> Laws:
        size = len(self.vocabulary)

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            distances = self.vectors.distances(words)
            for epsilon in epsilons:
                gamma = round(self.gamma(epsilon), 1)
                inside = distances <= gamma
                outside = size - inside.sum(axis=1, keepdims=True)
                rest = -gamma + 2 / epsilon * np.log(size / (size - outside))
                scores = np.concatenate([np.where(inside, -distances, -np.inf), rest], axis=1)
                scores[:, -1:][outside == 0] = -np.inf
                log_p = log_softmax(epsilon / 2 * scores, axis=1)
                yield np.where(inside, log_p[:, :-1], log_p[:, -1:] - np.log(np.maximum(outside, 1)))

        return Laws(self.vocabulary.encode(texts), size, log_probabilities)
