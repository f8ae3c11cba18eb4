"""Training of a head on six features, which takes a moment. As a program, it can be killed at a given place:

python -m tests.support.small_training CHECKPOINT OUT [HELD]

HELD: "step" or "checkpoint". The program prints "held" and waits to be killed before its fourth step, or before it
puts its third checkpoint in place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.schedule import Poisson, Schedule
from epsilometer.studies.training.runs import private
from epsilometer.studies.training.runs.gradients import ExampleGradients
from epsilometer.studies.training.runs.heads import BertHead
from epsilometer.studies.training.runs.private import Settings, train

WIDTH, TEXTS = 6, 40


def head(dropout: float = 0.1) -> BertHead:
    vector = np.random.default_rng(0).standard_normal((WIDTH + 1) * (WIDTH + 2)).astype(np.float32)
    return BertHead(vector, WIDTH, 2, dropout)


def texts() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return features [texts, width] and labels; the sign of the first coordinate is the label."""
    rng = np.random.default_rng(1)
    states = rng.standard_normal((TEXTS, WIDTH)).astype(np.float32)
    return states, (states[:, 0] > 0).astype(np.int64)


@dataclass(frozen=True)
class Recorded:
    """Gaussian noise, written out by hand, that records its inputs."""

    sigma: float = 0.1
    seen: list[tuple[int, Fraction, float]] = field(default_factory=list, repr=False, compare=False)

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        norms = gradients.norms()
        total = gradients.weighted_sum(1 / np.maximum(norms, 1))
        noise = generator.standard_normal(gradients.size) * self.sigma
        self.seen.append((gradients.count, Fraction(expected_batch), float(noise[0])))
        return ((total + noise) / float(expected_batch)).astype(np.float32)

    def release(self, parts: object) -> None:
        return None


def settings(schedule: Schedule | None = None, **changes: object) -> Settings:
    basic = Settings(schedule or Poisson(TEXTS, 10, 5), Recorded(), rate=0.01)
    return replace(basic, **changes)  # type: ignore[arg-type]


def held(call: Callable[..., None], number: int) -> Callable[..., None]:
    """Return the function, changed to print "held" and wait at its call of this number."""
    calls = count(1)

    def counted(*arguments: object) -> None:
        if next(calls) == number:
            print("held", flush=True)
            sys.stdin.read()
        call(*arguments)

    return counted


def trained_with_checkpoints(checkpoint: Path, out: Path, place: str = "") -> None:
    """Train with a checkpoint after every step, and write the result to `out`."""
    private.SECONDS = 0.0
    if place == "step":
        private._Run.move = held(private._Run.move, 4)  # type: ignore[method-assign]
    elif place == "checkpoint":
        os.replace = held(os.replace, 3)
    trained = train(head(), *texts(), settings(), checkpoint)
    out.write_bytes(trained.head.vector.tobytes() + trained.norms.tobytes() + trained.losses.tobytes())


if __name__ == "__main__":
    trained_with_checkpoints(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
