"""Records of a training: its single steps, and its head's accuracy, F1, Matthews' correlation and mean loss.

Records of steps, and losses after each pass, are computed from private texts without noise and stay in data/.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.studies.training.runs.heads import Head
from epsilometer.studies.training.runs.private import Trained

STEPS: tables.Schema = {  # a row per step of a training
    "step": pl.Int64,
    "batch": pl.Int64,  # number of texts in the batch
    "norm": pl.Float64,  # mean length of the batch's gradients
}


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


def write_steps(trained: Trained, folder: Path) -> None:
    """Write a training's steps to steps.parquet, and its losses after each pass to losses.npy."""
    steps = {"step": np.arange(len(trained.batches)), "batch": trained.batches, "norm": trained.norms}
    tables.write(pl.DataFrame(steps), folder / "steps.parquet", STEPS)
    tables.write_array(trained.losses, folder / "losses.npy")
