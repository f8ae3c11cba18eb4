"""Comparison of unit laws: the largest loss and the Bhattacharyya coefficient of every pair of laws.

The units of some texts have W distinct laws P_a, which give two matrices [W, W]:

    A[a, b] = max_y ln P_a(y) / P_b(y),    B[a, b] = ln sum_y sqrt(P_a(y) P_b(y)).

Laws are computed in blocks to limit memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.laws import Laws

Array = NDArray[np.float64]
_CELLS = 1 << 26  # law entries in memory at a time, over all budgets (512 MB)
_CACHE = 1 << 17  # entries compared at a time, to fit in the processor's cache
_SMALL = 1e-280  # a sum of products below this may lack terms that underflowed
_NEVER = -1e300  # replaces ln 0, so that differences stay finite


@dataclass(frozen=True)
class UnitLaws:
    """The comparison of unit laws. rows: [W] law rows. largest: the matrix A [W, W]. log_overlap: B [W, W]. In nats.

    B is NaN if it was not requested.
    """

    rows: NDArray[np.int64]
    largest: Array
    log_overlap: Array


def unit_laws(
    laws: Laws, rows: NDArray[np.integer], epsilons: Sequence[float], overlaps: bool = True
) -> list[UnitLaws]:
    """Return, for each budget, the matrix A (and B if overlaps are requested) of distinct law rows [W]."""
    size = max(1, _CELLS // (2 * laws.outputs * len(epsilons)))
    starts = range(0, len(rows), size)
    by_epsilon = [UnitLaws(np.asarray(rows, np.int64), *np.full((2, len(rows), len(rows)), np.nan)) for _ in epsilons]
    for i, start in enumerate(starts):
        left = log_laws(laws, rows[start : start + size], epsilons)
        for other in starts[i:]:
            right = left if other == start else log_laws(laws, rows[other : other + size], epsilons)
            for compared, first, second in zip(by_epsilon, left, right, strict=True):
                here, there = slice(start, start + len(first)), slice(other, other + len(second))
                compared.largest[here, there], reverse = largest_losses(first, second)
                compared.largest[there, here] = reverse.T
                if overlaps:
                    compared.log_overlap[here, there] = _log_overlap(first, second)
                    compared.log_overlap[there, here] = compared.log_overlap[here, there].T
    return by_epsilon


class Room:
    """Memory that successive tables reuse, because an allocation takes as long as the computation."""

    def __init__(self) -> None:
        self._cells = np.empty(0)

    def table(self, *shape: int) -> Array:
        """Return a table with arbitrary content; it overwrites the previous table."""
        if (size := math.prod(shape)) > len(self._cells):
            self._cells = np.empty(size)
        return self._cells[:size].reshape(shape)


def log_laws(laws: Laws, rows: NDArray[np.integer], epsilons: Sequence[float], room: Room | None = None) -> list[Array]:
    """Return for each budget the log-laws [n, outputs] of these rows. room: memory for the result."""
    tables = (room or Room()).table(len(epsilons), len(rows), laws.outputs)
    for start in range(0, len(rows), laws.chunk()):
        part = slice(start, start + laws.chunk())
        for table, law in zip(tables, laws.log_probabilities(rows[part], epsilons), strict=True):
            table[part] = law
    return list(tables)


def largest_losses(first: Array, second: Array) -> tuple[Array, Array]:
    """Return max_y of first[a] - second[b], and of second[b] - first[a], both [n, m].

    first, second: log-laws [n, outputs] and [m, outputs].
    """
    first, second = np.maximum(first, _NEVER), np.maximum(second, _NEVER)
    high, low = np.empty((2, len(first), len(second)))
    for part in _parts(len(second), second.shape[1]):
        for a, law in enumerate(first):
            difference = law - second[part]
            difference.max(axis=1, out=high[a, part])
            difference.min(axis=1, out=low[a, part])
    return _unbounded(high), _unbounded(-low)


def _log_overlap(first: Array, second: Array) -> Array:
    total = np.exp(first / 2) @ np.exp(second / 2).T
    with np.errstate(divide="ignore"):
        log_total = np.log(total)
        for a in np.flatnonzero((total < _SMALL).any(axis=1)):
            small = np.flatnonzero(total[a] < _SMALL)
            for part in _parts(len(small), second.shape[1]):
                half = (first[a] + second[small[part]]) / 2
                peak = np.maximum(half.max(axis=1), _NEVER)
                half -= peak[:, None]
                log_total[a, small[part]] = np.log(np.exp(half, out=half).sum(axis=1)) + peak
    return np.minimum(log_total, 0.0)


def _parts(count: int, outputs: int) -> Iterator[slice]:
    step = max(1, _CACHE // outputs)
    return (slice(start, start + step) for start in range(0, count, step))


def _unbounded(loss: Array) -> Array:
    return np.where(loss > -_NEVER / 2, np.inf, np.maximum(loss, 0.0))
