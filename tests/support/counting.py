"""Classifiers that remember what they are asked, and an anonymiser that asks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.outcomes import FOUND, Outcomes
from epsilometer.models.classifier import Classifier
from epsilometer.models.ledger import Ledger


class CountsItself:
    """A victim that remembers every text that it was asked; the answer is the text's length."""

    kind = "linear"
    classes = ("long", "short")

    def __init__(self) -> None:
        self.questions = Counter[str]()

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        self.questions.update(texts)
        lengths = np.array([float(len(text)) for text in texts])
        return np.stack([lengths, -lengths], axis=1)

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def shorten(texts: Sequence[str], classifiers: Mapping[str, Classifier]) -> Outcomes:
    """Tries the first half of each text and keeps it where that changes the answer."""
    ledger, owners = Ledger(classifiers, len(texts)), range(len(texts))
    halves = [text[: len(text) // 2] for text in texts]
    for candidates in (texts, halves, texts):
        ledger.probabilities("p", candidates, owners)
    ones = np.ones(len(texts), np.int64)
    return Outcomes([FOUND] * len(texts), ones, ones, ledger.questions, 0 * ones)
