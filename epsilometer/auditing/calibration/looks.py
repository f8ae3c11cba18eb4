"""Looks: bounds of a figure from fresh rewrites, to search for the epsilon at a target (`computed.meet`).

The j-th look has the level 6 alpha / (pi j)^2. All levels sum to alpha. So with probability at least 1 - alpha the
bounds of all looks are right, for any choice of epsilons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Turn(NamedTuple):
    """Terms of a look. level: the error probability. left: rewrites left. again: earlier looks at the same epsilon."""

    level: float
    left: int
    again: int


class Look(NamedTuple):
    """Bounds of a figure at one epsilon, and the number of rewrites that they took."""

    low: float
    high: float
    rewrites: int


def level(alpha: float, number: int) -> float:
    """Return the level of a look by its number, from 1."""
    return 6 * alpha / (math.pi * number) ** 2


@dataclass
class Looks:
    """A function from an epsilon to the bounds of a figure (`computed.Figure`), from looks with different levels.

    Looks at one epsilon repeat until their bounds together show on which side of the target the figure lies. If too few
    rewrites are left for the first look, both bounds are the target itself, so they decide nothing.

    look: a function of an epsilon and a `Turn` that returns bounds from at most `turn.left` rewrites, or None if these
    rewrites are too few. The bounds are wrong with probability at most the turn's level. spent: the number of all
    rewrites so far. number: the number of looks.
    """

    look: Callable[[float, Turn], Look | None]
    target: float
    budget: int
    alpha: float
    spent: int = field(default=0, init=False)
    number: int = field(default=0, init=False)

    def __call__(self, epsilon: float) -> tuple[float, float]:
        """Return the bounds at an epsilon."""
        lows, highs = list[float](), list[float]()
        while not lows or max(lows) <= self.target <= min(highs):
            turn = Turn(level(self.alpha, self.number + 1), self.budget - self.spent, len(lows))
            if (look := self.look(epsilon, turn)) is None:
                break
            self.number += 1
            self.spent += look.rewrites
            lows.append(look.low)
            highs.append(look.high)
        return (max(lows), min(highs)) if lows else (self.target, self.target)
