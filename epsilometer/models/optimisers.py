"""AdamW and plain stochastic gradient descent on one vector of parameters, in place.

AdamW has torch's defaults (Loshchilov and Hutter 2019, algorithm 2, without a schedule): betas .9 and .999, eps 1e-8,
and weight decay .01, which applies to every parameter, including biases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Name = Literal["adamw", "sgd"]

BETAS, EPSILON, DECAY = (0.9, 0.999), 1e-8, 0.01
_BLOCK = 1 << 15  # numbers that are updated at a time, few enough for a processor's cache


@dataclass
class AdamW:
    """The AdamW optimiser.

    rate: the learning rate. state: the running means of the gradient and of its square; empty before the first step.
    """

    rate: float
    state: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def step(self, vector: NDArray[np.float32], gradient: NDArray[np.float32], number: int) -> None:
        """Update the vector in place with a gradient. number: the number of the step, from 1."""
        if not self.state:
            self.state |= {"mean": np.zeros_like(vector), "square": np.zeros_like(vector)}
        flat = vector.reshape(-1, copy=False), gradient.reshape(-1)
        mean, square = (self.state[name].reshape(-1, copy=False) for name in ("mean", "square"))
        for start in range(0, len(flat[0]), _BLOCK):
            part = slice(start, start + _BLOCK)
            self._block(flat[0][part], flat[1][part], mean=mean[part], square=square[part], number=number)

    def _block(
        self,
        values: NDArray[np.float32],
        gradient: NDArray[np.float32],
        mean: NDArray[np.float32],
        square: NDArray[np.float32],
        number: int,
    ) -> None:
        mean *= np.float32(BETAS[0])
        mean += np.float32(1 - BETAS[0]) * gradient
        square *= np.float32(BETAS[1])
        scratch = gradient * gradient
        scratch *= np.float32(1 - BETAS[1])
        square += scratch
        np.sqrt(square, out=scratch)
        scratch *= np.float32((1 - BETAS[1] ** number) ** -0.5)
        scratch += np.float32(EPSILON)
        np.divide(mean, scratch, out=scratch)
        scratch *= np.float32(self.rate / (1 - BETAS[0] ** number))
        values *= np.float32(1 - self.rate * DECAY)
        values -= scratch


@dataclass
class Descent:
    """Stochastic gradient descent without momentum or decay. rate: the learning rate."""

    rate: float
    state: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def step(self, vector: NDArray[np.float32], gradient: NDArray[np.float32], number: int) -> None:
        """Update the vector in place, like `AdamW.step`; `number` is not used."""
        vector -= np.float32(self.rate) * gradient


def optimiser(name: Name, rate: float) -> AdamW | Descent:
    """Return a new optimiser by name, with a learning rate."""
    return AdamW(rate) if name == "adamw" else Descent(rate)
