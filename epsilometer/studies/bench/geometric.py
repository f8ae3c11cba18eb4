"""Truncated geometric noise on a count, in integers (Balcer and Vadhan, "Differential Privacy on Finite Computers")."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.known import KnownMechanism, table
from epsilometer.studies.bench.law import Law

EPSILON, PEOPLE = 0.1, 5
INPUTS = (2, 1)


def truncated_geometric() -> KnownMechanism:
    """Return algorithm 4.8, which is ln(1 + 2^-k)-private for k = ceil(ln(2 / epsilon)).

    P(z | c) falls by a factor of 2^k / (2^k + 1) with each step of z away from c.
    """
    k = math.ceil(math.log(2 / EPSILON))
    base, whole = 2**k + 1, (2 ** (k + 1) + 1) * (2**k + 1) ** (PEOPLE - 1)

    def up_to(c: int) -> list[int]:
        """Return how many of the `whole` equally likely integers lead to an output of at most z, for z = 0 to n."""
        below = [2 ** (k * (c - z)) * base ** (PEOPLE - (c - z)) for z in range(c)]
        above = [whole - 2 ** (k * (z - c + 1)) * base ** (PEOPLE - 1 - (z - c)) for z in range(c, PEOPLE)]
        return [*below, *above, whole]

    counts = [np.diff(np.array(up_to(c)), prepend=0) for c in INPUTS]
    law = Law(counts[0] / whole, counts[1] / whole)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.searchsorted(up_to(INPUTS[which]), rng.integers(1, whole + 1, count))

    claim = math.log1p(2.0**-k)
    origin = "Balcer and Vadhan, arXiv:1709.05396, algorithm 4.8"
    return KnownMechanism("TruncatedGeometric", origin, draw, table(law.losses), law=lambda: law, claim=claim)
