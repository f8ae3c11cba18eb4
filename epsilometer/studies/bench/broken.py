"""Mechanisms that leak more than they claim, and mechanisms that leak nothing.

Estimators must detect the excess loss of the first kind, and must report no loss for the second kind.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.known import KnownMechanism, table
from epsilometer.studies.bench.law import Floats, Law

_ORIGIN = "ours"


def response(name: str, epsilon: float, claim: float) -> KnownMechanism:
    """Return randomised response on one bit: the odds of reporting the true bit are e^epsilon (Warner 1965)."""
    keep = 1 / (1 + math.exp(-epsilon))
    law = Law(np.array([keep, 1 - keep]), np.array([1 - keep, keep]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return which ^ (rng.random(count) >= keep).astype(np.int64)

    return KnownMechanism(name, _ORIGIN, draw, table(law.losses), law=lambda: law, claim=claim)


def halved(epsilon: float) -> KnownMechanism:
    """Return randomised response that loses 2 epsilon and claims epsilon, as if it had halved a sensitivity."""
    return response("epsilon halved", 2 * epsilon, claim=epsilon)


def reused(epsilon: float) -> KnownMechanism:
    """Return a mechanism on two bits that uses one coin for both, so it always reveals whether they are equal.

    The two inputs are 00 and 01. The output for bits a and b is the number 2 a + b.
    """
    keep = 1 / (1 + math.exp(-epsilon))
    law = Law(np.array([keep, 0, 0, 1 - keep]), np.array([0, keep, 1 - keep, 0]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.where(rng.random(count) < keep, which, 3 - which)

    return KnownMechanism("noise reused", _ORIGIN, draw, table(law.losses), law=lambda: law, claim=epsilon)


def rare(epsilon: float, share: float) -> KnownMechanism:
    """Return randomised response on one bit that reveals the true bit with probability `share`.

    Outputs 0 and 1 are noisy bits. Output 2 reveals a true bit of 0, and output 3 a true bit of 1.
    """
    keep = 1 / (1 + math.exp(-epsilon))
    noisy = (1 - share) * np.array([keep, 1 - keep])
    law = Law(np.array([*noisy, share, 0]), np.array([*noisy[::-1], 0, share]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        flipped = which ^ (rng.random(count) >= keep).astype(np.int64)
        return np.where(rng.random(count) < share, 2 + which, flipped)

    return KnownMechanism(f"passes {share:.0%}", _ORIGIN, draw, table(law.losses), law=lambda: law, claim=epsilon)


def null(name: str, outputs: int) -> KnownMechanism:
    """Return a mechanism that reveals nothing about its input: its `outputs` possible outputs are equally likely."""
    chance = np.full(outputs, 1 / outputs)
    law = Law(chance, chance)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(0, outputs, count)

    return KnownMechanism(name, _ORIGIN, draw, table(law.losses), law=lambda: law, claim=0.0)


def null_scores() -> KnownMechanism:
    """Return Gaussian noise on two equal inputs, whose true loss is 0.

    Its `loss` function returns the output, a meaningless score. Estimators must not report a loss from such scores.
    """
    half = Law(np.array([1.0]), np.array([1.0]))

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        return rng.normal(size=count)

    return KnownMechanism(
        "null, with scores", _ORIGIN, draw, lambda y: np.asarray(y, np.float64), law=lambda: half, claim=0.0
    )
