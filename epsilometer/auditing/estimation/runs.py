"""Student's interval of the mean of a few runs, which may share training data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit


def mean_and_reach(values: ArrayLike, *, shared: float = 0) -> tuple[float, float]:
    """Return the mean of runs [n >= 2], and the half-width of its 99 % interval by Student's t.

    shared: the correlation of two runs, such as the share of their training data that they have in common; 0 for
    independent runs. The variance is corrected for this correlation as in Nadeau and Bengio (Machine Learning 52,
    2003); the interval is then not exact.
    """
    runs = np.asarray(values, dtype=np.float64)
    variance = runs.var(ddof=1) * (1 / len(runs) + shared / (1 - shared))
    return float(runs.mean()), float(stdtrit(len(runs) - 1, 0.995)) * math.sqrt(variance)
