"""Scores of a head: accuracy, F1, Matthews' correlation, mean loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.training.runs.heads import Head


def scores(head: Head, states: NDArray[np.float32], labels: NDArray[np.integer]) -> dict[str, float]:
    """Return accuracy, f1, mcc and loss (the mean, in nats) of a head on texts.

    f1 is the F1 of the last class if there are two classes, else the mean over classes. A class that is never guessed
    has an F1 of 0. mcc is 0 if all guesses are equal.
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
