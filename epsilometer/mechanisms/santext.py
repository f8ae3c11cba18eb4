"""SanText: each word is replaced by a word that is near it (Yue et al., Findings of ACL 2021, eq. 2).

    P(y | x) ~ exp(-epsilon / 2 ||x - y||)

over the whole vocabulary: the exponential mechanism on the Euclidean distance d of the raw vectors. The kernel and the
normaliser change by at most e^(epsilon / 2 d(x, x')) each, so P(y | x) <= e^(epsilon d(x, x')) P(y | x').

Assumptions: epsilon belongs to a word; texts are neighbours if they have equally many words; the vocabulary is public,
and every word of it can come out for every word.

Departures: the released code (xiangyue9607/SanText 9c35f6e) takes the vocabulary from the private corpus and replaces
a word outside it by a uniform draw, which tells it from all words inside; here it becomes a fixed word before the noise
(`epsilometer.language.vocabulary`). SanText+, which keeps most words that its corpus calls common, is not offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from epsilometer.component import component
from epsilometer.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.language.vectors import WordVectors
from epsilometer.language.vocabulary import Vocabulary
from epsilometer.laws import Laws, sample
from epsilometer.mechanism import Rewrites
from epsilometer.randomness import Noise


@component
class SanText:
    """resource: a file of word vectors."""

    embedded: ClassVar[str] = "vectors.npz"

    resource: Path

    @cached_property
    def vectors(self) -> WordVectors:
        """The vectors of the whole words in the file."""
        return WordVectors.load(self.resource).whole_words()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Inputs and outputs."""
        return Vocabulary(self.vectors.words)

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
                yield log_softmax(-epsilon / 2 * distances, axis=1)

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """One epsilon of `rewrite_grid`."""
        return self.rewrite_grid(texts, [epsilon], [noise])[0]

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """The distances from each distinct word are computed once for all epsilons."""
        drawn = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
        return [Rewrites(self.vocabulary.decode(units), units) for units in drawn]
