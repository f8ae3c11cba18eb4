"""A mechanism at one pair of inputs whose law is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.law import Law

Draw = Callable[[int, int, np.random.Generator], NDArray[Any]]
"""Takes the input (0 first, 1 other), the number n of runs and a random generator; returns outputs, [n] or [n, d]."""

Loss = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Takes n outputs; returns [n] ln P(output | first) / P(output | other), infinite if an input excludes the output."""


@dataclass(frozen=True)
class KnownMechanism:
    """A mechanism at a pair of inputs.

    origin: the paper or repository that defines it.
    draw:   samples outputs with the mechanism's algorithm, without use of the law.
    loss:   computes the logarithm of the likelihood ratio of outputs.
    law:    computes the law of all outputs.
    claim:  the epsilon that its authors claim for the pair; None if they claim nothing.
    delta:  the delta of the claim, 0 for pure privacy.
    """

    name: str
    origin: str
    draw: Draw
    loss: Loss
    law: Callable[[], Law]
    claim: float | None = None
    delta: float = 0.0


def table(losses: NDArray[np.float64]) -> Loss:
    """Return the loss function of a mechanism whose outputs are numbers 0 to m - 1. losses: [m], one per output."""
    return lambda outputs: losses[outputs]
