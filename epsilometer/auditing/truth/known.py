"""A mechanism at one pair of inputs whose law is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.truth.law import Law

Draw = Callable[[int, int, np.random.Generator], NDArray[Any]]
"""Which input (0 the first, 1 the other), how many, randomness -> outputs [n] or [n, d]."""

Loss = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Outputs -> [n] ln P(output | first) / P(output | other), infinite where one of them never gives it."""


@dataclass(frozen=True)
class Known:
    """A mechanism at a pair of inputs.

    origin: its definition; draw: its algorithm, which knows no law; loss: the likelihood ratio of outputs; law: of all
    outputs, computed when it is asked for; delta: that of the claim, 0 for pure privacy; claim: what its
    authors claim for the pair, None where nothing is.
    """

    name: str
    origin: str
    draw: Draw
    loss: Loss
    law: Callable[[], Law]
    claim: float | None = None
    delta: float = 0.0


def table(losses: NDArray[np.float64]) -> Loss:
    """The loss of outputs that are numbers from 0: an entry for each."""
    return lambda outputs: losses[outputs]
