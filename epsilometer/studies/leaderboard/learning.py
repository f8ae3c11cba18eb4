"""Classifiers trained on releases with the true labels of their sources: macro F1 on clean texts, per split.

Labels are released in the clear, as in the papers that the leaderboard compares: a mechanism protects only the text.
Both learners are logistic regressions: on TF-IDF of words, and on sentence embeddings of a frozen encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.worth.scoring import scores
from epsilometer.models.classifier import Examples
from epsilometer.models.classifiers.linear import Linear, logistic_regression

WORDS, SENTENCES = "words", "sentences"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """n texts with labels and unit embeddings [n, d]. weights: [n], the number of texts that each counts for."""

    texts: Sequence[str]
    labels: Sequence[str]
    vectors: Array
    weights: Array | None = None

    def take(self, places: Sequence[int] | NDArray[np.integer]) -> Labelled:
        """The texts at these places, in their order."""
        weights = None if self.weights is None else self.weights[places]
        texts, labels = ([list_[i] for i in places] for list_ in (self.texts, self.labels))
        return Labelled(texts, labels, self.vectors[places], weights)


def macro_f1(learnt: Labelled, tested: Labelled) -> Iterator[tuple[str, float]]:
    """Yields each learner with its macro F1 over the classes of the tested texts; a single class is always guessed."""
    classes = sorted({*tested.labels})
    number = {name: i for i, name in enumerate(classes)}
    truth = np.array([number[label] for label in tested.labels])
    for learner in (WORDS, SENTENCES):
        guessed = np.array([number.get(label, len(classes)) for label in _guesses(learner, learnt, tested)])
        yield learner, scores(truth, guessed, classes).macro_f1


def _guesses(learner: str, learnt: Labelled, tested: Labelled) -> list[str]:
    if len({*learnt.labels}) < 2:
        return [learnt.labels[0]] * len(tested.texts)
    if learner == WORDS:
        model = Linear.fit(Examples(learnt.texts, learnt.labels), learnt.weights)
        classes, logits = model.classes, model.probabilities(tested.texts)
    else:
        classes, coefficients, intercepts = logistic_regression(learnt.vectors, learnt.labels, learnt.weights)
        logits = tested.vectors @ coefficients.T + intercepts
    return [classes[i] for i in logits.argmax(axis=1)]
