"""A test of the equivalence of two methods, by differences between paired runs that differ only in the method.

The mean difference has a t interval at confidence 1 - alpha, which assumes normal differences. The verdicts are:

- **equivalent**: the interval lies between -margin and +margin, for a margin fixed beforehand (two one-sided tests at
  alpha / 2 each, Schuirmann 1987). Methods that differ by the margin or more are called so with probability at most
  alpha / 2.
- **different**: the interval is not within the margin and excludes 0. Equal methods are called so with probability at
  most alpha.
- **undecided**: neither of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

EQUIVALENT, DIFFERENT, UNDECIDED = "equivalent", "different", "undecided"


@dataclass(frozen=True)
class Compared:
    """The mean difference, its interval and the verdict."""

    difference: float
    low: float
    high: float
    verdict: str


def compare(differences: Sequence[float], margin: float, alpha: float) -> Compared:
    """Compare two methods by differences [n] of paired runs. A single difference leaves the verdict undecided."""
    mean, count = float(np.mean(differences)), len(differences)
    half = math.inf
    if count > 1:
        half = float(t.ppf(1 - alpha / 2, count - 1)) * float(np.std(differences, ddof=1)) / math.sqrt(count)
    low, high = mean - half, mean + half
    verdict = UNDECIDED if low <= 0 <= high else DIFFERENT
    return Compared(mean, low, high, EQUIVALENT if -margin < low and high < margin else verdict)
