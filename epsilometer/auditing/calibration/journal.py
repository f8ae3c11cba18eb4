"""The measurements of a search, stored as they come, for a search that continues, or has another target."""

from __future__ import annotations

import json
from collections import UserDict
from pathlib import Path

import numpy as np

from epsilometer.auditing.calibration.sampled import Batch

Key = tuple[str, float, int, int]
"""attack, epsilon, the number of the first trial, how many trials"""


class Journal(UserDict[Key, Batch]):
    """Guesses by their trials; each new batch is a line of JSON at the end of the file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                attack, epsilon, first, count, successes, posteriors = json.loads(line)
            except ValueError:  # cut off by a kill: treated as not written
                continue
            self.data[attack, epsilon, first, count] = Batch(
                successes, None if posteriors is None else np.array(posteriors, np.float64)
            )

    def __setitem__(self, key: Key, batch: Batch) -> None:
        self.data[key] = batch
        posteriors = None if batch.posteriors is None else batch.posteriors.tolist()
        with self.path.open("a") as file:  # the line break first, since the last line may be cut off
            file.write("\n" + json.dumps([*key, batch.successes, posteriors]))
