"""Counts of trials by the score of their guess. A mechanism with few outputs has few distinct scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distinct(values: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Return the distinct values [d], ascending, and the count of each. values: [n], which need not be finite."""
    if _alike(values):
        return values[:1], np.array([len(values)])
    return np.unique(values, return_counts=True)


def counted(
    values: NDArray[np.floating], *flags: NDArray[np.bool_]
) -> tuple[NDArray[np.floating], NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the result of `distinct`, and for each flag [n] its count at each distinct value."""
    if _alike(values):
        return *distinct(values), [np.array([np.count_nonzero(flag)]) for flag in flags]
    different, place = np.unique(values, return_inverse=True)
    counts = [np.bincount(place[flag], minlength=len(different)) for flag in flags]
    return different, np.bincount(place), counts


def _alike(values: NDArray[np.floating]) -> bool:
    """Return True if all values are equal (found without sorting)."""
    return bool(len(values) and values[0] == values[-1] and (values == values[0]).all())
