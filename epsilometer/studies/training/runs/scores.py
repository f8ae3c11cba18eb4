"""Scores of a head: accuracy, F1, Matthews' correlation, mean loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.training.runs.heads import Head


def scores(head: Head, states: NDArray[np.float32], labels: NDArray[np.integer]) -> dict[str, float]:
    """Return accuracy, f1, mcc and loss (mean, in nats) of a head on texts, which may be its training texts.

    f1 is that of the last class where there are two, else the mean of all classes; a class that is never guessed has
    an F1 of 0. mcc is 0 where one class is always guessed.
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    guessed = head.probabilities(states).argmax(axis=-1)
    average = "binary" if head.classes == 2 else "macro"
    every = None if head.classes == 2 else list(range(head.classes))
    return {
        "accuracy": float(np.mean(guessed == labels)),
        "f1": float(f1_score(labels, guessed, labels=every, average=average, zero_division=0)),
        "mcc": float(matthews_corrcoef(labels, guessed)),
        "loss": float(head.losses(states, labels).mean()),
    }
