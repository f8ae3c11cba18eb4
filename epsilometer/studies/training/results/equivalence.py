"""Equivalence of two methods, by differences between runs that share everything but the method.

The mean difference has a t interval at 1 - alpha, which assumes normal differences. Three verdicts:

- **equivalent**: the interval lies within the margin on both sides of 0; the margin was stated beforehand (two
  one-sided tests at alpha / 2 each: Schuirmann 1987). Methods that differ by the margin or more are called equivalent
  with probability at most alpha / 2;
- **different**: it does not, and excludes 0. Equal methods are called different with probability at most alpha;
- **undecided**: neither.
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
    """Return the result for differences [n] of paired runs; a single one has an infinite interval, hence no verdict."""
    mean, count = float(np.mean(differences)), len(differences)
    half = math.inf
    if count > 1:
        half = float(t.ppf(1 - alpha / 2, count - 1)) * float(np.std(differences, ddof=1)) / math.sqrt(count)
    low, high = mean - half, mean + half
    verdict = UNDECIDED if low <= 0 <= high else DIFFERENT
    return Compared(mean, low, high, EQUIVALENT if -margin < low and high < margin else verdict)
