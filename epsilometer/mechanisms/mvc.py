"""MVC, calibrated multivariate perturbations (Feyisetan, Balle, Drake and Diethe, WSDM 2020, algorithm 1).

The vector x of each word, of d dimensions, is moved by noise of density ~ exp(-epsilon ||z||), and the word nearest to
where it lands is written:

    z = r g / ||g||,    g ~ N(0, I_d),    r ~ Gamma(d, 1 / epsilon),    y = argmin_w ||x + z - w||.

The densities of x + z and x' + z differ by at most e^(epsilon ||x - x'||), and finding the nearest word is
post-processing. The noise is about d / epsilon long: in hundreds of dimensions it needs an epsilon to match. It is
continuous, so there is no law to compute.

Assumptions: epsilon belongs to a word; distances are Euclidean, of the raw vectors; texts are neighbours if they have
equally many words; the vocabulary is public.

Departures: the nearest word is the nearest (the released code, sjmeis/MLDP 65a9eb8, searches approximately), and a word
outside the vocabulary, there let through unchanged, becomes a fixed word first (`epsilometer.language.vocabulary`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from epsilometer.component import component
from epsilometer.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.language.vectors import WordVectors
from epsilometer.language.vocabulary import Vocabulary
from epsilometer.mechanism import Rewrites
from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise

_WORDS = 1 << 11  # words in memory at a time; a text is never cut


@component
class MVC:
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

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """d + 1 uniforms a word: one for each dimension of the direction, one for the radius."""
        private = self.vocabulary.encode(texts)
        draws = self.vectors.vectors.shape[1] + 1
        made = []
        for rows in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(private.offsets[1:] // _WORDS)) + 1):
            part = private.take(rows)
            moved = self.vectors.exact[part.values] + spherical(noise[rows].ragged(part.lengths, draws), epsilon)
            made.append(self.vectors.nearest(moved))
        units = Ragged(np.concatenate(made).astype(np.int32), private.offsets)
        return Rewrites(self.vocabulary.decode(units), units)


def spherical(uniforms: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Noise of density ~ exp(-epsilon ||z||): [n, d] from uniforms [n, d + 1]."""
    direction = ndtri(uniforms[:, :-1])
    radius = gammaincinv(direction.shape[1], uniforms[:, -1]) / epsilon
    return direction * (radius / np.linalg.norm(direction, axis=1))[:, None]
