"""The utility of rewritten texts: scores of classifiers trained on these texts (TeDA, arXiv:2603.22968, section 4.1).

TeDA trains on rewritten texts and tests on clean texts, for tasks and for private attributes. Here a classifier of an
attribute is also an adversary that sees the released texts. This adversary is *static* if trained on clean texts and
tested on rewritten texts (1-Diffractor's setting), and *adaptive* if trained and tested on rewritten texts.
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
    """The scores of guesses of a class.

    macro_f1: mean F1 of all classes. binary_f1: F1 of the last class by name; None for more than two classes. matthews:
    Matthews' correlation coefficient (Gorodkin's for several classes); 0, although undefined, if only one class is
    guessed. guessed: the number of guessed classes.
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
    """Pearson's and Spearman's correlation with the true numbers; 0, although undefined, if all guesses are equal.

    guessed: the number of distinct guesses.
    """

    pearson: float
    spearman: float
    guessed: int

    def row(self) -> dict[str, float | None]:
        """Return the scores as columns of a table."""
        return asdict(self)


def scores(truth: NDArray[np.integer], guessed: NDArray[np.integer], classes: Sequence[str]) -> ClassScores:
    """Return the scores of guesses. truth, guessed: [n] indices of classes. A class never guessed has an F1 of 0."""
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
    """Return the scores of guesses of a number. truth, guessed: [n]; the true numbers must not all be equal."""
    from scipy.stats import pearsonr, spearmanr

    several = len({*guessed.tolist()})
    if several < 2:
        return NumberScores(0.0, 0.0, several)
    return NumberScores(float(pearsonr(truth, guessed)[0]), float(spearmanr(truth, guessed)[0]), several)


def majority(train: Examples, test: Examples) -> NDArray[np.int64]:
    """Return guesses [n], all of the most frequent class of the training texts; among equals, the first by name."""
    classes = sorted({*train.labels})
    counts = Counter(train.labels)
    commonest = max(range(len(classes)), key=lambda i: counts[classes[i]])
    return np.full(len(test), commonest)
