"""A classifier whose answers can be computed by hand: its logits are sums of the words' weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.tagging import words_and_marks


class Weighted:
    """A classifier that records its questions.

    weights: for each lower-case word, its weight for each class. pair: two words, and weights that are added if a text
    has both, so that words do not simply add up.
    """

    kind = "linear"

    def __init__(
        self,
        classes: Sequence[str],
        weights: Mapping[str, Sequence[float]],
        pair: tuple[str, str, Sequence[float]] | None = None,
    ) -> None:
        self.classes, self.weights, self.pair = classes, weights, pair
        self.questions: list[str] = []

    def logits(self, text: str) -> NDArray[np.float64]:
        tokens = [token.lower() for token in words_and_marks(text)]
        total = np.zeros(len(self.classes))
        for token in tokens:
            total += self.weights.get(token, 0)
        if self.pair is not None and {*self.pair[:2]} <= {*tokens}:
            total += self.pair[2]
        return total

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        self.questions += texts
        logits = np.array([self.logits(text) for text in texts]).reshape(-1, len(self.classes))
        weights = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def save(self, folder: Path) -> None:
        raise NotImplementedError
