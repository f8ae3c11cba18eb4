"""What rewritten texts are still good for: a classifier fine-tuned on them (TeDA, arXiv:2603.22968, section 4.1).

The same classifier is an adversary where the label is a private attribute: *static*, trained on clean texts and tested
on rewritten ones (1-Diffractor's setting), or *adaptive*, trained and tested on rewritten texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.models.classifier import Examples


@dataclass(frozen=True)
class ClassScores:
    """macro_f1: mean F1 of all classes; binary_f1: of the last class by name, where there are two; accuracy."""

    macro_f1: float
    binary_f1: float | None
    accuracy: float

    def row(self) -> dict[str, float | None]:
        """The scores as columns of a table."""
        return asdict(self)


def scores(truth: NDArray[np.integer], guessed: NDArray[np.integer], classes: Sequence[str]) -> ClassScores:
    """Scores of guesses. truth, guessed: [n] numbers of classes. A class that is never guessed has an F1 of 0."""
    from sklearn.metrics import f1_score

    every = range(len(classes))
    return ClassScores(
        macro_f1=float(f1_score(truth, guessed, labels=list(every), average="macro", zero_division=0)),
        binary_f1=float(f1_score(truth, guessed, pos_label=1, zero_division=0)) if len(classes) == 2 else None,
        accuracy=float(np.mean(np.asarray(truth) == np.asarray(guessed))),
    )


def majority(train: Examples, test: Examples) -> NDArray[np.int64]:
    """Returns [n] guesses of the commonest class of the training texts; of equally common ones the first by name."""
    classes = sorted({*train.labels})
    counts = Counter(train.labels)
    commonest = max(range(len(classes)), key=lambda i: counts[classes[i]])
    return np.full(len(test), commonest)
