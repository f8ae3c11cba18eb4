"""Sums of numbers given as logarithms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def log_sum(logs: NDArray[np.float64]) -> float:
    """Return ln sum e^logs of logs [n]."""
    peak = float(logs.max())
    return peak + math.log(float(np.exp(logs - peak).sum())) if math.isfinite(peak) else peak
