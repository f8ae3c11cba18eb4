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
here such a word becomes a fixed word first (`epsilometer.language.vocabulary`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import log_softmax

from epsilometer.component import component
from epsilometer.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.language.vectors import WordVectors
from epsilometer.language.vocabulary import Vocabulary
from epsilometer.laws import Laws, sample
from epsilometer.mechanism import Rewrites
from epsilometer.randomness import Noise


@component
class TEM:
    """resource: a file of word vectors; beta: the largest probability of leaving the ball of radius gamma."""

    embedded: ClassVar[str] = "vectors.npz"

    resource: Path
    beta: Annotated[float, Field(gt=0, lt=1)] = 0.001

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors of the whole words in the file."""
        return WordVectors.load(self.resource).whole_words()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Inputs and outputs."""
        return Vocabulary(self.vectors.words)

    def gamma(self, epsilon: float) -> float:
        """Where the distance is cut off."""
        return max(0.0, 2 / epsilon * math.log((1 - self.beta) * (len(self.vocabulary) - 1) / self.beta))

    def guarantee(self, epsilon: float) -> Guarantee:
        """Epsilon a word, times the distance of the words; the number of words is not protected."""
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, metric="L2 distance")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Sum over positions of the words' Euclidean distances; infinite for texts of unlike numbers of words."""
        return self.vocabulary.distance(texts, pairs, self.vectors.between)

    def laws(self, texts: Sequence[str]) -> Laws:
        """A row for each word of the vocabulary."""

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            distances = self.vectors.distances(words)
            for epsilon in epsilons:
                yield log_softmax(-epsilon / 2 * np.minimum(distances, self.gamma(epsilon)), axis=1)

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One epsilon of `rewrite_grid`."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """The distances from each distinct word are computed once for all epsilons."""
        drawn = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
        return [Rewrites(self.vocabulary.decode(units), units) for units in drawn]
