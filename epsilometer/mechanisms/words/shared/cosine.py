"""Law of the exponential mechanism on the clipped cosine of word vectors, shared by `exponential` and others:

    P(y | x) ~ exp(epsilon u(x, y) / 2),    u(x, y) = max(0, cos(x, y)).

`epsilometer.mechanisms.words.exponential` contains the proof of the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.mechanisms.words.shared.kernel import KernelMechanism


@component
class CosineMechanism(KernelMechanism):
    """A mechanism whose weights depend on the clipped cosine.

    normalise: always true, since the cosine compares directions.
    """

    normalise: Literal[True] = True

    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return epsilon / 2 times the clipped cosine, which is 1 - d^2 / 2 for unit vectors at distance d."""
        return epsilon / 2 * np.maximum(0, 1 - distances**2 / 2)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, between any two words; the number of words is not protected."""
        return self.claim(epsilon)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the number of differing words; infinite for texts of different lengths."""
        return self.vocabulary.distance(texts, pairs, np.not_equal)

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the largest ln-ratio of normalisers minus epsilon / 2.

        Log-weights differ by at most epsilon / 2, and the claim is epsilon.
        """
        (log_total,) = self.log_normalisers(np.arange(len(self.vectors)), [epsilon])
        return float(np.ptp(log_total)) - epsilon / 2
