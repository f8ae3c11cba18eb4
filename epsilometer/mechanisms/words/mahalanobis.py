"""The Mahalanobis mechanism: MVC with noise shaped like the words' spread (Xu, Aggarwal, Feyisetan and Teissier, 2020).

In plain words it adds random noise to the meaning of each word, and writes the word nearest to the result.

The noise of MVC is stretched, so that balls of equal density become ellipsoids:

    z = r M^(1/2) g / ||g||,    g ~ N(0, I_d),    r ~ Gamma(d, 1 / epsilon),    M = lambda S + (1 - lambda) I,

where S is the covariance of the vocabulary's vectors, scaled to mean variance 1 (arXiv:2010.11947, algorithm 1). The
density of z is proportional to exp(-epsilon ||M^(-1/2) z||). So the claim is epsilon times the Mahalanobis distance of
the words,

    d_M(x, x') = ||M^(-1/2) (x - x')||,

and not times the Euclidean distance. Writing the nearest word in Euclidean distance is post-processing.

Assumptions: those of MVC; S comes from the public vocabulary. Departures: those of MVC.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.mechanisms.words.shared.moved import MovedWords


@component
class Mahalanobis(MovedWords):
    """MVC with elliptical noise.

    tilt: lambda, from 0 (MVC) to below 1 (the ellipsoid of the covariance).
    """

    tilt: Annotated[float, Field(ge=0, lt=1)] = 0.2

    @cached_property
    def _axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The eigenvalues [d] and eigenvectors [d, d] of M."""
        covariance = np.cov(self.vectors.exact, rowvar=False, ddof=0).reshape(self.vectors.vectors.shape[1], -1)
        values, axes = np.linalg.eigh(covariance)
        return self.tilt * np.maximum(values, 0) / max(values.mean(), np.finfo(float).tiny) + 1 - self.tilt, axes

    @property
    def _white(self) -> NDArray[np.float64]:
        """The word vectors [V, d] in coordinates in which the Mahalanobis distance is the Euclidean distance."""
        values, axes = self._axes
        return self.vectors.exact @ (axes / np.sqrt(values))

    def relaxed(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M^(-1/2) x for points x [n, d]."""
        values, axes = self._axes
        return points @ (axes / np.sqrt(values) @ axes.T)

    def stretched(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M^(1/2) z for spherical noise z [n, d]."""
        values, axes = self._axes
        return noise @ (axes * np.sqrt(values) @ axes.T)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, times the Mahalanobis distance of the words; the number of words is not protected."""
        return self.claim(epsilon, "Mahalanobis distance")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the sum over positions of Mahalanobis distances; infinite for texts of different lengths."""
        white = self._white
        return self.vocabulary.distance(texts, pairs, lambda a, b: np.linalg.norm(white[a] - white[b], axis=1))
