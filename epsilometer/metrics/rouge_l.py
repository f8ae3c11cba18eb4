"""ROUGE-L (Lin 2004) by rouge-score: F1 of the longest common subsequence of words.

The words are ours, in place of the library's tokeniser, which knows ASCII letters only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.component import component
from epsilometer.text.words import words


@component
class RougeL:
    """1 where neither text has a word, 0 where one of them has none."""

    def measure(self, originals: Sequence[str], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """The [n] scores, 0 to 1."""
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(["rougeL"], tokenizer=_Words())
        scores = [
            scorer.score(a, b)["rougeL"].fmeasure if words(a) or words(b) else 1.0
            for a, b in zip(originals, rewrites, strict=True)
        ]
        return np.array(scores, np.float64)


class _Words:
    """Our words as a tokeniser of rouge-score."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)
