"""ROUGE-L (Lin 2004): F1 of the longest common subsequence of words, whose length rapidfuzz computes.

The scores equal those of the library rouge-score on the same words, bit for bit. That library is not used, because its
memory and time grow with the product of the two lengths. For documents of 10,000 words this is too much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class RougeL:
    """ROUGE-L: 1 if neither text has words, 0 if only one text has words."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] scores, 0 to 1."""
        pairs = zip(originals, rewrites, strict=True)
        return np.array([_f1(words(original), words(rewrite)) for original, rewrite in pairs], np.float64)


def _f1(reference: list[str], written: list[str]) -> float:
    from rapidfuzz.distance import LCSseq

    if not reference and not written:
        return 1.0
    common = LCSseq.similarity(reference, written)
    if not common:
        return 0.0
    precision, recall = common / len(written), common / len(reference)
    return 2 * precision * recall / (precision + recall)
