"""A file of a search's measurements, from which the search can continue or restart with another target."""

from __future__ import annotations

import hashlib
import json
from collections import UserDict
from pathlib import Path

import numpy as np

from epsilometer.auditing.calibration.sampled import Batch
from epsilometer.runtime.progress import note

Key = tuple[str, float, int, int]
"""The attack, epsilon, number of the first trial, and number of trials of a batch."""


class Journal(UserDict[Key, Batch]):
    """Batches of guesses, by the key of their trials. Each new batch appends a line: a hash, a space and JSON.

    A line that does not match its hash is damaged, was truncated when the process was killed, or comes from a version
    that wrote no hashes. The trials of such lines are measured again, and a note counts these lines.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [line for line in path.read_bytes().split(b"\n") if line] if path.exists() else []
        damaged = 0
        for line in lines:
            stored, _, measured = line.partition(b" ")
            if stored != _hash(measured):
                damaged += 1
                continue
            attack, epsilon, first, count, successes, posteriors = json.loads(measured)
            self.data[attack, epsilon, first, count] = Batch(
                successes, None if posteriors is None else np.array(posteriors, np.float64)
            )
        if damaged:
            note(
                f"{damaged} of {len(lines)} lines in {path} are damaged, truncated or of an earlier version; "
                "their trials are measured again"
            )

    def __setitem__(self, key: Key, batch: Batch) -> None:
        self.data[key] = batch
        posteriors = None if batch.posteriors is None else batch.posteriors.tolist()
        measured = json.dumps([*key, batch.successes, posteriors]).encode()
        with self.path.open("ab") as file:  # a line break first, since the last line may be truncated
            file.write(b"\n" + _hash(measured) + b" " + measured)


def _hash(measured: bytes) -> bytes:
    return hashlib.blake2b(measured, digest_size=16).hexdigest().encode()
