"""A mechanism at one pair of inputs whose law is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.law import Law

Draw = Callable[[int, int, np.random.Generator], NDArray[Any]]
"""Takes the input to use (0 the first, 1 the other), the number n of runs and randomness; returns [n] or [n, d]."""

Loss = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Takes outputs; returns [n] ln P(output | first) / P(output | other), infinite where one input never gives it."""


@dataclass(frozen=True)
class KnownMechanism:
    """A mechanism at a pair of inputs.

    origin: the source of its definition.
    draw:   its algorithm, which does not use the law.
    loss:   the logarithm of the likelihood ratio of outputs.
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
    """Return the loss function of outputs that are numbers from 0, given the loss of each."""
    return lambda outputs: losses[outputs]
