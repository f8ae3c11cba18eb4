"""The utility of rewritten texts: scores of a classifier fine-tuned on them (TeDA, arXiv:2603.22968, section 4.1).

TeDA trains on rewritten texts and tests on clean ones, whether the label is a task or a private attribute. For an
attribute, the same classifier is an adversary here, with access to the released view: *static*, trained on clean texts
and tested on rewritten ones (1-Diffractor's setting), or *adaptive*, trained and tested on rewritten texts.
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

    matthews: the correlation coefficient (Gorodkin's, for several classes). It is undefined, and set to 0, where one
    class alone is guessed. guessed: number of guessed classes.
    """

    macro_f1: float
    binary_f1: float | None
    accuracy: float
    matthews: float
    guessed: int

    def row(self) -> dict[str, float | None]:
        """Return the scores as columns of a table."""
        return asdict(self)


@dataclass(frozen=True)
class NumberScores:
    """Pearson's and Spearman's correlation with the true numbers. For equal guesses they are undefined, and set to 0.

    guessed: number of different guessed numbers.
    """

    pearson: float
    spearman: float
    guessed: int

    def row(self) -> dict[str, float | None]:
        """Return the scores as columns of a table."""
        return asdict(self)


def scores(truth: NDArray[np.integer], guessed: NDArray[np.integer], classes: Sequence[str]) -> ClassScores:
    """Return the scores of guesses. truth, guessed: [n] numbers of classes. A class never guessed has an F1 of 0."""
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
    """Return the scores of guesses of a number. truth, guessed: [n]; the true numbers differ."""
    from scipy.stats import pearsonr, spearmanr

    several = len({*guessed.tolist()})
    if several < 2:
        return NumberScores(0.0, 0.0, several)
    return NumberScores(float(pearsonr(truth, guessed)[0]), float(spearmanr(truth, guessed)[0]), several)


def majority(train: Examples, test: Examples) -> NDArray[np.int64]:
    """Return [n] guesses of the most frequent class of the training texts; among equals the first by name."""
    classes = sorted({*train.labels})
    counts = Counter(train.labels)
    commonest = max(range(len(classes)), key=lambda i: counts[classes[i]])
    return np.full(len(test), commonest)
