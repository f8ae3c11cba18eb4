"""The exponential mechanism on the clipped cosine of word vectors: PrivRewrite's token sanitiser (McSherry and Talwar).

    P(y | x) ~ exp(epsilon u(x, y) / (2 Delta)),    u(x, y) = max(0, cos(x, y)),    Delta = 1

(McSherry and Talwar, FOCS 2007; PrivRewrite, Applied Sciences 15(22) 11930, phase 1). u lies in [0, 1], so the weight
and the normaliser change by at most e^(epsilon / 2) each, whichever word x is exchanged for whichever x':
P(y | x) <= e^epsilon P(y | x').

Assumptions: epsilon belongs to a word, and holds between any two words, near or far; texts are neighbours if they have
equally many words; the vocabulary is public, and every word of it can come out for every word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epsilometer.component import component
from epsilometer.guarantees import Guarantee
from epsilometer.language.kernel_mechanism import KernelMechanism


@component
class Exponential(KernelMechanism):
    """normalise: the cosine is one of directions, so the vectors are always scaled."""

    normalise: Literal[True] = True

    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Epsilon / 2 times the clipped cosine; of unit vectors it is 1 - d^2 / 2."""
        return epsilon / 2 * np.maximum(0, 1 - distances**2 / 2)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for each word, whichever it is; the number of words is not protected."""
        return self.claim(epsilon)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """How many words differ; infinite for texts of unlike numbers of words."""
        return self.vocabulary.distance(texts, pairs, np.not_equal)

    def excess_bound(self, epsilon: float) -> float | None:
        """The weights change by at most epsilon / 2, the normalisers by what they do; the claim is epsilon."""
        log_total = self.log_normalisers(epsilon)
        return float(np.ptp(log_total)) - epsilon / 2
