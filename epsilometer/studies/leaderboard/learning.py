"""Macro F1, on clean texts, of classifiers trained on releases.

Each release has the true label of its source. Labels are in the clear, as in the papers that the leaderboard compares:
a mechanism protects only the text. There are two learners, both logistic regressions: one on TF-IDF of words, one on
sentence embeddings by a frozen encoder.
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
    """n texts with labels. vectors: [n, d], sentence embeddings of unit length; weights: [n], None if all are 1."""

    texts: Sequence[str]
    labels: Sequence[str]
    vectors: Array
    weights: Array | None = None

    def take(self, places: Sequence[int] | NDArray[np.integer]) -> Labelled:
        """Return the texts at these indices, in the order of the indices."""
        weights = None if self.weights is None else self.weights[places]
        texts, labels = ([list_[i] for i in places] for list_ in (self.texts, self.labels))
        return Labelled(texts, labels, self.vectors[places], weights)


def macro_f1(learnt: Labelled, tested: Labelled) -> Iterator[tuple[str, float]]:
    """Yield each learner's name and its macro F1 over the classes of the tested texts.

    If `learnt` has a single class, every guess is this class.
    """
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
