"""METEOR (Lavie and Agarwal 2007) by nltk, with matches of equal words and of equal stems.

Words are matched first if they are equal, then if their Porter stems are equal. The third stage, synonyms from WordNet,
is left out, since WordNet must be downloaded. So scores are at most those with synonyms. The parameters are nltk's:
alpha 0.9, beta 3, gamma 0.5. The fragmentation penalty counts at least one chunk. So two equal texts of n words score 1
- 0.5 / n^3, and two equal one-word texts score 0.5. Stems are English; in other languages only equal words match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class Meteor:
    """METEOR: 1 if neither text has words, 0 if only one text has words."""

    english: ClassVar[bool] = True  # the stems are English

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the [n] scores, 0 to 1."""
        from nltk.translate.meteor_score import single_meteor_score

        scores = []
        for original, rewrite in zip(originals, rewrites, strict=True):
            left, right = words(original), words(rewrite)
            has_words = left or right
            scores.append(single_meteor_score(left, right, wordnet=_NoSynonyms()) if has_words else 1.0)
        return np.array(scores, np.float64)


class _NoSynonyms:
    """A WordNet without synonyms, for nltk."""

    def synsets(self, word: str) -> list[object]:
        return []
