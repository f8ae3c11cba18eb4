"""Jaccard index of the texts' sets of words: the number of words in both texts divided by the number in either."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class Jaccard:
    """Jaccard index: 1 for equal sets of words, including two texts without words."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] indices, 0 to 1."""
        pairs = [({*words(a)}, {*words(b)}) for a, b in zip(originals, rewrites, strict=True)]
        return np.array([len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs], np.float64)
