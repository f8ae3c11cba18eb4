"""Broken: asks the classifier directly, so that the ledger does not count the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epsilometer.core.outcomes import Outcomes
from epsilometer.models.classifier import Classifier
from tests.support.counting import shorten


def rewrite(texts: Sequence[str], classifiers: Mapping[str, Classifier]) -> Outcomes:
    for text in texts:
        classifiers["p"].probabilities([f"{text} {i}" for i in range(5)])
    return shorten(texts, classifiers)
