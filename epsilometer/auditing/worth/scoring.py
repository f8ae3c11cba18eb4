"""What rewritten texts are still good for: a classifier fine-tuned on them (TeDA, arXiv:2603.22968, section 4.1).

TeDA tests on clean texts what it trains on rewritten ones, be the label a task or a private attribute. Where it is an
attribute, the same classifier is an adversary here, who sees what is released: *static*, trained on clean texts and
tested on rewritten ones (1-Diffractor's setting), or *adaptive*, trained and tested on rewritten texts.
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
    """macro_f1: mean F1 of all classes; binary_f1: of the last class by name, where there are two; accuracy.

    matthews: the correlation coefficient (Gorodkin's, of several classes). Where one class alone is guessed it is not
    defined, and 0. guessed: how many classes are guessed at all.
    """

    macro_f1: float
    binary_f1: float | None
    accuracy: float
    matthews: float
    guessed: int

    def row(self) -> dict[str, float | None]:
        """The scores as columns of a table."""
        return asdict(self)


@dataclass(frozen=True)
class NumberScores:
    """Pearson's and Spearman's correlation with the true numbers. Of equal guesses they are not defined, and 0.

    guessed: how many different numbers are guessed.
    """

    pearson: float
    spearman: float
    guessed: int

    def row(self) -> dict[str, float | None]:
        """The scores as columns of a table."""
        return asdict(self)


def scores(truth: NDArray[np.integer], guessed: NDArray[np.integer], classes: Sequence[str]) -> ClassScores:
    """Scores of guesses. truth, guessed: [n] numbers of classes. A class that is never guessed has an F1 of 0."""
    from sklearn.metrics import f1_score, matthews_corrcoef

    every = range(len(classes))
    return ClassScores(
        macro_f1=float(f1_score(truth, guessed, labels=list(every), average="macro", zero_division=0)),
        binary_f1=float(f1_score(truth, guessed, pos_label=1, zero_division=0)) if len(classes) == 2 else None,
        accuracy=float(np.mean(np.asarray(truth) == np.asarray(guessed))),
        matthews=float(matthews_corrcoef(truth, guessed)),
        guessed=len({*np.asarray(guessed).tolist()}),
    )


def number_scores(truth: NDArray[np.floating], guessed: NDArray[np.floating]) -> NumberScores:
    """Scores of guesses of a number. truth, guessed: [n]; the true numbers differ."""
    from scipy.stats import pearsonr, spearmanr

    several = len({*guessed.tolist()})
    if several < 2:
        return NumberScores(0.0, 0.0, several)
    return NumberScores(float(pearsonr(truth, guessed)[0]), float(spearmanr(truth, guessed)[0]), several)


def majority(train: Examples, test: Examples) -> NDArray[np.int64]:
    """Returns [n] guesses of the commonest class of the training texts; of equally common ones the first by name."""
    classes = sorted({*train.labels})
    counts = Counter(train.labels)
    commonest = max(range(len(classes)), key=lambda i: counts[classes[i]])
    return np.full(len(test), commonest)
