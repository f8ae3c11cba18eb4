"""SanText: replaces each word by a near word (Yue et al., Findings of ACL 2021, eq. 2).

In plain words it replaces each word by another, chosen at random and most often similar to it.

    P(y | x) ~ exp(-epsilon / 2 ||x - y||)

Here x is the input word and y any word of the vocabulary. This is the exponential mechanism on the Euclidean distance d
of the raw vectors. From x to x', the weight of y and the normaliser each change by a factor of at most
e^(epsilon / 2 d(x, x')), so P(y | x) <= e^(epsilon d(x, x')) P(y | x').

Assumptions: the claim is per word; texts are neighbours if they have the same number of words; the vocabulary is
public, and every word of it can replace every word.

Departures: the reference code (xiangyue9607/SanText 9c35f6e) takes the vocabulary from the private corpus. It replaces
an out-of-vocabulary word by a uniformly random word, so the output distinguishes such a word from words of the
vocabulary. Here an out-of-vocabulary word is first replaced by a fixed word (`shared/vocabulary.py`). SanText+ is
`santext_plus`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.mechanisms.words.shared.kernel import KernelMechanism


@component
class SanText(KernelMechanism):
    """The SanText mechanism, with the settings of every mechanism on word vectors."""

    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return the log-weights: -epsilon / 2 times the distance."""
        return -epsilon / 2 * distances
