"""A figure as a bracket: a lower and an upper bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", float, NDArray[np.float64])


@dataclass(frozen=True)
class Bracket(Generic[F]):
    """Two numbers, or arrays of one shape, with low <= the true figure <= high."""

    low: F
    high: F


def guess_loss(log_error: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the guess loss ln((1 - e) / e) in nats, at least 0.

    log_error: ln of e, the error probability of guessing between two equally likely texts.
    """
    capped = np.minimum(log_error, -np.log(2.0))
    return np.log1p(-np.exp(capped)) - capped


def guess_losses(log_error: Bracket[NDArray[np.float64]]) -> Bracket[NDArray[np.float64]]:
    """Return `guess_loss` of both bounds, swapped, because a larger error means a smaller loss."""
    return Bracket(guess_loss(log_error.high), guess_loss(log_error.low))
