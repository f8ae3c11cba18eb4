"""Mechanisms that leak more than they claim, and some that leak nothing: what an estimator must catch, and must not."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.truth.known import Known, table
from epsilometer.auditing.truth.law import Floats, Law

_ORIGIN = "ours"


def response(name: str, epsilon: float, claim: float) -> Known:
    """Randomised response on a bit: it is kept with odds e^epsilon (Warner 1965)."""
    keep = 1 / (1 + math.exp(-epsilon))
    law = Law(np.array([keep, 1 - keep]), np.array([1 - keep, keep]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return which ^ (rng.random(count) >= keep).astype(np.int64)

    return Known(name, _ORIGIN, draw, table(law.losses), law=lambda: law, claim=claim)


def halved(epsilon: float) -> Known:
    """Spends twice the epsilon that it claims, as if a sensitivity had been halved."""
    return response("epsilon halved", 2 * epsilon, claim=epsilon)


def reused(epsilon: float) -> Known:
    """Two bits, 00 and 01, and one coin that flips both: whether they agree comes out untouched. Outputs: 2 a + b."""
    keep = 1 / (1 + math.exp(-epsilon))
    law = Law(np.array([keep, 0, 0, 1 - keep]), np.array([0, keep, 1 - keep, 0]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.where(rng.random(count) < keep, which, 3 - which)

    return Known("noise reused", _ORIGIN, draw, table(law.losses), law=lambda: law, claim=epsilon)


def rare(epsilon: float, share: float) -> Known:
    """Randomised response that lets a share of its inputs through with a mark: outputs 2 and 3 are the bare bit."""
    keep = 1 / (1 + math.exp(-epsilon))
    noisy = (1 - share) * np.array([keep, 1 - keep])
    law = Law(np.array([*noisy, share, 0]), np.array([*noisy[::-1], 0, share]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        flipped = which ^ (rng.random(count) >= keep).astype(np.int64)
        return np.where(rng.random(count) < share, 2 + which, flipped)

    return Known(f"passes {share:.0%}", _ORIGIN, draw, table(law.losses), law=lambda: law, claim=epsilon)


def null(name: str, outputs: int) -> Known:
    """Says nothing about its input: one of so many outputs, uniformly."""
    chance = np.full(outputs, 1 / outputs)
    law = Law(chance, chance)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(0, outputs, count)

    return Known(name, _ORIGIN, draw, table(law.losses), law=lambda: law, claim=0.0)


def null_scores() -> Known:
    """Gaussian noise on two equal numbers, and a score that an attack makes up: nothing must be found in it."""
    half = Law(np.array([1.0]), np.array([1.0]))

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        return rng.normal(size=count)

    return Known("null, with scores", _ORIGIN, draw, lambda y: np.asarray(y, np.float64), law=lambda: half, claim=0.0)
