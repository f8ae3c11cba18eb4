"""Exact integer noise in every cell of a table of counts: discrete Laplace or discrete Gaussian.

Laplace noise Z has P(Z = z) ~ q^|z| with q = e^(-epsilon / D), where D is the L1 distance of the tables of two
neighbours. The release H + Z of a table H is epsilon-private. For the table H' of a neighbour, the log-ratio of P(H + Z
= t) and P(H' + Z = t) is the sum over cells of (|t - H'| - |t - H|) epsilon / D, which is at most epsilon by the
triangle inequality. Empty cells get noise, too, since a cell without noise would reveal that nobody votes for it.

The discrete Gaussian of standard deviation s is rho-zCDP with rho = D2^2 / (2 s^2), where D2 is the L2 distance
(Canonne, Kamath and Steinke 2020, theorem 14). `core.curves.Zcdp.delta` converts rho to (epsilon, delta) by their
proposition 12.

Both kinds of noise are sampled by the integer algorithms of that paper (`core.exact_samplers`). The rate epsilon / D is
rounded down to a multiple of 2^-40 (2^-20 for large rates), so the noise is never smaller than stated.
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

_FINEST, _COARSE = 40, 20  # fractional bits of a rate; _COARSE for rates that would not fit into 64 bits otherwise
_DEVIATION = 1 << 31  # largest supported standard deviation


@dataclass(frozen=True)
class CellNoise:
    """The noise of each cell.

    epsilon, delta: the claim; Laplace noise if delta is 0, otherwise Gaussian.
    votes:          most votes of a unit.
    replaced:       True if neighbours replace a unit, so that their tables differ in up to 2 * `votes` votes; False if
                    they add or remove a unit.
    """

    epsilon: float
    votes: int
    replaced: bool
    delta: float = 0.0

    @property
    def rate(self) -> Fraction:
        """The rate of Laplace noise: epsilon over the L1 distance, rounded down."""
        exact = Fraction(self.epsilon) / (self.votes * (2 if self.replaced else 1))
        scale = 1 << (_FINEST if exact < 1 << _COARSE else _COARSE)
        rate = Fraction(math.floor(exact * scale), scale)
        if not rate:
            raise UserError(
                f"epsilon {self.epsilon:g} is too small for {self.votes} texts per person: the rate of the noise would "
                f"be below 2^-{_FINEST}; count fewer texts per person, or give a larger epsilon",
                "EPS-M101",
            )
        return rate

    @property
    def deviation(self) -> int:
        """The smallest integer standard deviation of Gaussian noise that satisfies (epsilon, delta)."""

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
        """The variance of a cell's noise: 2 q / (1 - q)^2 for Laplace noise, the upper bound s^2 for Gaussian noise."""
        if self.delta:
            return float(self.deviation**2)
        rate = float(self.rate)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def draw(self, cells: int, draws: ExactDraws) -> NDArray[np.int64]:
        """Sample independent noise, int64 [cells]."""
        if self.delta:
            return draws.gaussian(np.full(cells, self.deviation, np.uint64))
        rate = self.rate
        return draws.laplace(np.full(cells, rate.numerator, np.uint64), np.full(cells, rate.denominator, np.uint64))


def exact_draws(noise: Noise) -> ExactDraws:
    """Return the exact samplers of a publication; in an audit, the same samplers on a seeded stream."""
    return noise.exact or ExactDraws(partial(system.words, noise.generator(0)))
