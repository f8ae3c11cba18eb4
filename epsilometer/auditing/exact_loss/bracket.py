"""An exact figure with its rounding error: a lower and an upper value, both of which hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", float, NDArray[np.float64])


@dataclass(frozen=True)
class Bracket(Generic[F]):
    """low <= the true figure <= high: numbers, or arrays of one shape."""

    low: F
    high: F


def guess_loss(log_error: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns ln((1 - e) / e) in nats for ln e, the error of guessing which of two equally likely texts it was."""
    capped = np.minimum(log_error, -np.log(2.0))
    return np.log1p(-np.exp(capped)) - capped


def guess_losses(log_error: Bracket[NDArray[np.float64]]) -> Bracket[NDArray[np.float64]]:
    """As `guess_loss`; a larger error is a smaller loss."""
    return Bracket(guess_loss(log_error.high), guess_loss(log_error.low))
