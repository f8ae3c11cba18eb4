"""Base class of `mvc` and similar mechanisms: moves a word's vector by noise, and writes a word near the moved point.

The noise z of a publication is discrete and sampled exactly (`epsilometer.core.exact_samplers`). The density
e^(-epsilon ||z||) in d dimensions is a mixture of Gaussians, whose variance s has the Gamma distribution of shape
(d + 1) / 2 and rate epsilon^2 / 2:

    e^(-epsilon ||z||) ~ integral over t of e^(t / 2 - ||z||^2 / 2s - epsilon^2 s / 2),    s = e^t.

The integral is replaced by its trapezoid sum, whose error falls exponentially with the number of nodes. One node, that
is, one of the Gaussians, is sampled per word. Its standard deviation is a whole number of steps of a fixed grid. The
word's vector is rounded to this grid, and discrete Gaussian noise of this deviation is added to each coordinate. The
slope of the log-density, ideally epsilon, is at most epsilon (1 + 2e-9) outside a region of probability 2^-100, as a
test computes. Nodes near s = 0 are left out, which only makes the slope smaller. Rounding the vector to the grid adds
at most (d + 12) 2^-29 nats per word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.exact_samplers import ExactDraws, Words
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism

_WORDS = 1 << 11  # words in memory at a time; a text is never split


@component
class MovedWords(WordVectorMechanism):
    """A mechanism that adds noise of density ~ exp(-epsilon ||z||) to each word's vector, and then chooses a word."""

    def stretched(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the noise [n, d] to add, given spherical noise; the same noise unless overridden."""
        return noise

    def relaxed(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply the inverse of `stretched` to points [n, d]; it maps stretched noise to spherical noise."""
        return points

    def chosen(
        self, points: NDArray[np.float64], uniforms: NDArray[np.float64], private: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Return the words [n] for moved points [n, d]; the nearest words unless overridden.

        uniforms: [n]; private: the words [n] that were moved. A choice that depends on `private` is not
        post-processing, so the claim may fail. Only mechanisms with `as_published` make such a choice.
        """
        return self.vectors.nearest(points)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. A word uses d + 2 uniforms: d for direction, one for radius, one for the choice."""
        private = self.vocabulary.encode(texts)
        outputs = []
        for rows in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(private.offsets[1:] // _WORDS)) + 1):
            part = private.take(rows)
            points, uniforms = self._landed(part, epsilon, noise[rows])
            outputs.append(self.chosen(points, uniforms, part.values))
        return self.written(texts, Ragged(np.concatenate(outputs).astype(np.int32), private.offsets))

    def moved(
        self, texts: Sequence[str], epsilon: float, noise: Noise
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return vectors and moved points of one-word texts, in coordinates where the claim's distance is Euclidean."""
        words = self.vocabulary.encode(texts)
        points, _ = self._landed(words, epsilon, noise)
        return self.relaxed(self.vectors.exact[words.values]), self.relaxed(points)

    def _landed(self, words: Ragged, epsilon: float, noise: Noise) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the moved points of words, [n, d], and one uniform per point, [n], for the choice of a word."""
        start = self.vectors.exact[words.values]
        if noise.exact is not None:
            points = self.stretched(moved_exactly(self.relaxed(start), epsilon, noise.exact))
            return points, noise.ragged(words.lengths)[:, 0]
        uniforms = noise.ragged(words.lengths, start.shape[1] + 2)
        return start + self.stretched(spherical(uniforms[:, :-1], epsilon)), uniforms[:, -1]


def spherical(uniforms: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return noise [n, d] of density ~ exp(-epsilon ||z||), from uniforms [n, d + 1]."""
    from scipy.special import gammaincinv, ndtri  # loads in a third of a second; only sampling needs it

    direction = ndtri(uniforms[:, :-1])
    radius = gammaincinv(direction.shape[1], uniforms[:, -1]) / epsilon
    return direction * (radius / np.linalg.norm(direction, axis=1))[:, None]


def moved_exactly(points: NDArray[np.float64], epsilon: float, exact: ExactDraws) -> NDArray[np.float64]:
    """Return the points [n, d] plus noise of density ~ exp(-epsilon ||z||), sampled exactly on a grid."""
    dimensions = points.shape[1]
    log_weights, deviations, unit = mixture(dimensions)
    node = exact.choose(log_weights, len(points))
    noise = exact.gaussian(np.repeat(deviations[node], dimensions)).reshape(points.shape)
    step = unit / epsilon
    return np.asarray((np.trunc(points / step) + noise) * step, np.float64)


@cache
def mixture(dimensions: int) -> tuple[NDArray[np.float64], Words, float]:
    """Return the m nodes for epsilon 1: log-weights [m], deviations [m] in grid steps, and the size of a step."""
    from scipy.special import gammainccinv

    farthest = float(gammainccinv(dimensions, 2.0**-100))  # longer noise has a probability of 2^-100
    spacing = 2 * math.pi / math.sqrt(100 * farthest)  # step in t; the error is about e^-50
    largest = farthest * math.exp(math.acosh(1 + 40 / farthest))  # nodes beyond it have weights below e^-40
    unit = math.sqrt(largest) * 2.0**-31  # deviations are 2^24 to 2^31 steps
    t = np.arange(math.log(largest) - 14 * math.log(2), math.log(largest), spacing)
    deviations = np.rint(np.exp(t / 2) / unit)
    variances = (deviations * unit) ** 2
    return (dimensions + 1) / 2 * np.log(variances) - variances / 2, deviations.astype(np.uint64), unit
