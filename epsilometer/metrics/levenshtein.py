"""Levenshtein similarity: 1 - distance / length of the longer text, in characters.

Texts are compared in plain form: lower-cased words joined by spaces (`text.words`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words, write


@component
class Levenshtein:
    """Levenshtein similarity: 1 for equal words, and for two texts without words."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] similarities, 0 to 1."""
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import cpdist

        plain = [[write(words(text)) for text in side] for side in (originals, rewrites)]
        similarities: NDArray[np.float64] = cpdist(*plain, scorer=Levenshtein.normalized_similarity, dtype=np.float64)
        return similarities
