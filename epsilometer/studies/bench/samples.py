"""Samples of a mechanism of known loss: the input of every estimator on the bench."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.known import KnownMechanism

DIGITS = 9


@dataclass(frozen=True)
class Samples:
    """n runs of a mechanism, each on one of two inputs that a fair coin chooses.

    first:   bool [n], whether the first input was used.
    outputs: [n] or [n, d], the outputs of the runs.
    loss:    float [n], ln P(output | first) / P(output | other), the scores of the optimal adversary, rounded to
             DIGITS decimals. Without rounding, the last bits of a floating-point sum would reveal its terms (Mironov
             2012) and prove a loss that the mechanism on paper does not have.
    guess:   bool [n], whether the optimal adversary guesses the first input; decided by a coin if the loss is 0.
    """

    first: NDArray[np.bool_]
    outputs: NDArray[Any]
    loss: NDArray[np.float64]
    guess: NDArray[np.bool_]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Bool [n]: whether each guess of the optimal adversary is right."""
        return self.guess == self.first


def samples(mechanism: KnownMechanism, count: int, seed: int) -> Samples:
    """Return `count` runs of a mechanism. The mechanism's name, `count` and `seed` determine all random numbers."""
    rng = np.random.default_rng([zlib.crc32(mechanism.name.encode()), count, seed])
    first = rng.random(count) < 0.5
    halves = [mechanism.draw(which, int(of.sum()), rng) for which, of in enumerate((first, ~first))]
    outputs = np.empty((count, *halves[0].shape[1:]), halves[0].dtype)
    outputs[first], outputs[~first] = halves
    loss = np.round(mechanism.loss(outputs), DIGITS)
    guess = np.where(loss == 0, rng.random(count) < 0.5, loss > 0)
    return Samples(first, outputs, loss, guess)
