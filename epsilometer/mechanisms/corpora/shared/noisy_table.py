"""Integer noise in every cell of a table of counts, exactly: discrete Laplace, or discrete Gaussian.

Z has P(Z = z) ~ q^|z| with q = e^(-epsilon / D), D the L1 distance of two neighbours' tables. A release H + Z has a
pure epsilon: the log-ratio of P(H + Z = t) and P(H' + Z = t) is the sum over cells of (|t - H'| - |t - H|) epsilon / D,
which is at most epsilon by the triangle inequality. It holds for any table of integers, so every cell has noise,
the empty ones too: a cell without noise would show that nobody votes for it.

The discrete Gaussian of deviation s is rho-zCDP with rho = D2^2 / (2 s^2), D2 the L2 distance (Canonne, Kamath and
Steinke 2020, theorem 14). `core.curves.Zcdp.delta` converts that to (epsilon, delta) by their proposition 12.

Both are drawn by the integer algorithms of the same paper (`core.exact_samplers`). The rate epsilon / D is rounded
down to a multiple of 2^-40, so the noise is never smaller than stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import system
from epsilometer.core.curves import Zcdp
from epsilometer.core.errors import UserError
from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.randomness import Noise

_FINEST, _COARSE = 40, 20  # bits of a rate's fraction; the coarse ones for rates that would not fit into 64 bits
_DEVIATION = 1 << 31  # largest deviation that is drawn


@dataclass(frozen=True)
class CellNoise:
    """The noise of each cell.

    epsilon, delta: the claim; delta 0: Laplace noise, otherwise Gaussian. votes: the most votes of a unit, in which
    two neighbours differ. replaced: neighbours by replacement, which differ in twice as many, else by adding.
    """

    epsilon: float
    votes: int
    replaced: bool
    delta: float = 0.0

    @property
    def rate(self) -> Fraction:
        """Epsilon over the L1 distance, rounded down: the rate of Laplace noise."""
        exact = Fraction(self.epsilon) / (self.votes * (2 if self.replaced else 1))
        scale = 1 << (_FINEST if exact < 1 << _COARSE else _COARSE)
        rate = Fraction(math.floor(exact * scale), scale)
        if not rate:
            raise UserError(
                f"epsilon {self.epsilon:g} over {self.votes} texts a person is below 2^-{_FINEST}; count fewer texts, "
                "or give a larger epsilon",
                "EPS-M101",
            )
        return rate

    @property
    def deviation(self) -> int:
        """The least integer deviation of Gaussian noise that keeps (epsilon, delta)."""

        def keeps(deviation: int) -> bool:
            rho = self.votes**2 * (2 if self.replaced else 1) / (2 * deviation**2)
            return bool(Zcdp(rho).delta(np.array([self.epsilon]))[0] <= self.delta)

        low, high = 0, 1
        while not keeps(high):
            low, high = high, 2 * high
            if high > _DEVIATION:
                raise UserError(
                    f"epsilon {self.epsilon:g} at delta {self.delta:g} needs Gaussian noise of a deviation above 2^31; "
                    "give a larger epsilon or delta",
                    "EPS-M102",
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return high

    @property
    def variance(self) -> float:
        """The variance of the noise of a cell, 2 q / (1 - q)^2 for Laplace noise; at most s^2 for Gaussian noise."""
        if self.delta:
            return float(self.deviation**2)
        rate = float(self.rate)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def draw(self, cells: int, draws: ExactDraws) -> NDArray[np.int64]:
        """Return [cells] independent integers."""
        if self.delta:
            return draws.gaussian(np.full(cells, self.deviation, np.uint64))
        rate = self.rate
        return draws.laplace(np.full(cells, rate.numerator, np.uint64), np.full(cells, rate.denominator, np.uint64))


def exact_draws(noise: Noise) -> ExactDraws:
    """Return the samplers of a publication, or the same ones on the bits of a seeded stream."""
    return noise.exact or ExactDraws(partial(system.words, noise.generator(0)))
