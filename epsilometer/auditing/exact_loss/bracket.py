"""An exact figure with its rounding error: a value that is at most it, and one that is at least it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Bracket:
    """What is meant lies between low and high, elementwise; float64 arrays of one shape."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def error(self) -> NDArray[np.float64]:
        """Half of the width."""
        return np.where(self.low == self.high, 0.0, (self.high - self.low) / 2)  # also where both are infinite


def guess_loss(log_error: Bracket) -> Bracket:
    """The losses ln((1 - e) / e), in nats, at which guessing between two texts has the error e.

    Of ln e, since e itself is 0 in floating point beyond 745 nats. Infinite at e = 0, 0 at e = 1/2.
    """
    return Bracket(_loss(log_error.high), _loss(log_error.low))


def _loss(log_error: NDArray[np.float64]) -> NDArray[np.float64]:
    at_most_half = np.minimum(log_error, math.log(0.5))
    return np.maximum(np.log1p(-np.exp(at_most_half)) - at_most_half, 0.0)
