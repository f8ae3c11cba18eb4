"""A classifier that records the texts it gets, and an anonymiser that asks classifiers."""

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
    """A victim that records every text it gets. Its answer is the text's length."""

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
    """Ask about each text and its first half, and return outcomes with the number of questions."""
    ledger, owners = Ledger(classifiers, len(texts)), range(len(texts))
    halves = [text[: len(text) // 2] for text in texts]
    for candidates in (texts, halves, texts):
        ledger.probabilities("p", candidates, owners)
    ones = np.ones(len(texts), np.int64)
    return Outcomes([FOUND] * len(texts), ones, ones, ledger.questions, 0 * ones)
