"""RAPPOR: noisy bits of a Bloom filter (Erlingsson, Pihur and Korolova, CCS 2014)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.law import Floats, Law

BITS = 20
FIRST, OTHER = (3, 10, 13), (0, 11, 18)
"""The bits set by the four hashes (murmur3, seeds 0 to 3) of the values 1 and 0, as DP-Sniper computes them."""


def rappor(name: str, set_one: float, set_zero: float, claim: float) -> KnownMechanism:
    """Return RAPPOR. set_one: P(1 is reported for a bit set in the filter); set_zero: the same for an unset bit."""
    chance = np.full((2, BITS), set_zero)
    chance[0, list(FIRST)] = chance[1, list(OTHER)] = set_one
    signs = np.zeros(BITS)
    signs[list(FIRST)], signs[list(OTHER)] = 1, -1
    steps = math.log(set_one / set_zero), math.log((1 - set_one) / (1 - set_zero))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return rng.random((count, BITS), np.float32) < chance[which].astype(np.float32)

    def loss(outputs: NDArray[np.bool_]) -> Floats:
        return np.where(outputs, steps[0], steps[1]) @ signs

    def law() -> Law:
        """Return the law, grouped by the numbers of bits in FIRST and in OTHER that are reported as 1."""
        ones = np.arange(len(FIRST) + 1)
        set_, unset = binom.pmf(ones, len(FIRST), set_one), binom.pmf(ones, len(OTHER), set_zero)
        set_bit, unset_bit = (np.array([1 - chance, chance]) for chance in (set_one, set_zero))
        bits = (Law(set_bit, unset_bit),) * len(FIRST) + (Law(unset_bit, set_bit),) * len(OTHER)
        return Law(np.outer(set_, unset).ravel(), np.outer(unset, set_).ravel(), parts=bits)

    return KnownMechanism(name, "Erlingsson et al., CCS 2014", draw, loss, law=law, claim=claim)


def one_time() -> KnownMechanism:
    """Return the permanent response (steps 1 and 2). Its claim is 2 h ln((2 - f) / f) for h = 4 hashes and f below."""
    f = 0.95  # probability that a fair coin replaces a bit of the filter
    return rappor("OneTimeRappor", 1 - f / 2, f / 2, claim=8 * math.log((2 - f) / f))


def instantaneous() -> KnownMechanism:
    """Return the instantaneous response, computed from the permanent response (steps 1 to 3)."""
    f, p, q = 0.75, 0.45, 0.55
    p_one, p_zero = f / 2 * p + (1 - f / 2) * q, f / 2 * q + (1 - f / 2) * p
    ratio = math.log(p_one * (1 - p_zero) / (p_zero * (1 - p_one)))
    return rappor("Rappor", p_one, p_zero, claim=4 * ratio)
