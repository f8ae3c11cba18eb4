"""What MVC and its relatives share: a word's vector is moved by noise, and a word near to where it lands is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from epsilometer.component import component
from epsilometer.language.word_mechanism import WordVectorMechanism
from epsilometer.mechanism import Rewrites
from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise

_WORDS = 1 << 11  # words in memory at a time; a text is never cut


@component
class MovedWords(WordVectorMechanism):
    """Noise of density ~ exp(-epsilon ||z||) on each word's vector, perhaps stretched; then words again."""

    def stretched(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """The noise [n, d] that is added: as it is, where nothing else is said."""
        return noise

    def chosen(self, points: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """The words [n] for the moved points [n, d], with one uniform each: the nearest, unless said."""
        return self.vectors.nearest(points)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """d + 2 uniforms a word: one for each dimension of the direction, one for the radius, one for the word."""
        private = self.vocabulary.encode(texts)
        draws = self.vectors.vectors.shape[1] + 2
        made = []
        for rows in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(private.offsets[1:] // _WORDS)) + 1):
            part = private.take(rows)
            uniforms = noise[rows].ragged(part.lengths, draws)
            moved = self.vectors.exact[part.values] + self.stretched(spherical(uniforms[:, :-1], epsilon))
            made.append(self.chosen(moved, uniforms[:, -1]))
        return self.written(texts, Ragged(np.concatenate(made).astype(np.int32), private.offsets))


def spherical(uniforms: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Noise of density ~ exp(-epsilon ||z||): [n, d] from uniforms [n, d + 1]."""
    direction = ndtri(uniforms[:, :-1])
    radius = gammaincinv(direction.shape[1], uniforms[:, -1]) / epsilon
    return direction * (radius / np.linalg.norm(direction, axis=1))[:, None]
