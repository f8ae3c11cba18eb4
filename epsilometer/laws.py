"""Exact output laws: sampling from them, and how likely an output is under them.

A text is a sequence of units; each unit is governed by one law row, a distribution over the mechanism's outputs. For
context-free mechanisms a row belongs to a word, for contextual ones to a (text, position) pair. Rows are computed on
demand in chunks and never kept: at a vocabulary of 30,000 they would be gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise

_CELLS = 1 << 22  # law entries in memory at a time (float64: 32 MB an epsilon)


@dataclass(frozen=True)
class Laws:
    """The laws of the units of some texts.

    rows:      for each text, the law row of each of its units.
    outputs:   how many outputs there are; the same set for every row.
    log_probabilities: (rows [n], epsilons) -> for each epsilon in turn, natural logarithms [n, outputs] that sum to
               one in probability; what does not depend on epsilon is computed once a call.
    """

    rows: Ragged
    outputs: int
    log_probabilities: Callable[[NDArray[np.integer], Sequence[float]], Iterator[NDArray[np.float64]]]

    def chunk(self) -> int:
        """How many rows to ask for at a time."""
        return max(1, _CELLS // self.outputs)


def sample(laws: Laws, source: NDArray[np.integer], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Ragged]:
    """Draw every unit of text source[t] for each trial t, at each epsilon: by inverse CDF from one uniform a unit.

    Returns one Ragged [trials] of output numbers for each epsilon.
    """
    wanted = laws.rows.take(source)
    lengths = wanted.lengths
    uniforms = [noise.ragged(lengths)[:, 0] for noise in noises]
    drawn = [np.empty(len(wanted.values), np.int32) for _ in epsilons]
    for rows, members, places in _by_row(wanted.values, laws.chunk()):
        for out, uniform, log_p in zip(drawn, uniforms, laws.log_probabilities(rows, epsilons), strict=True):
            cdf = np.cumsum(np.exp(log_p), axis=1)
            cdf /= cdf[:, -1:]
            for i in range(len(rows)):
                units = members[places[i] : places[i + 1]]
                out[units] = np.searchsorted(cdf[i], uniform[units], side="right")
    return [Ragged(np.minimum(out, laws.outputs - 1), wanted.offsets) for out in drawn]


def log_likelihood(laws: Laws, texts: NDArray[np.integer], units: Ragged, epsilon: float) -> NDArray[np.float64]:
    """[n]: log P(units[i] | texts[i]); minus infinity where the text has another number of units."""
    rows = laws.rows.take(texts)
    total = np.where(rows.lengths == units.lengths, 0.0, -np.inf)
    fits = np.flatnonzero(np.isfinite(total))
    rows, units = rows.take(fits), units.take(fits)
    value = np.empty(len(rows.values))
    for chunk, members, places in _by_row(rows.values, laws.chunk()):
        (log_p,) = laws.log_probabilities(chunk, [epsilon])
        at = np.repeat(np.arange(len(chunk)), np.diff(places))
        value[members] = log_p[at, units.values[members]]
    # Not reduceat: it has no empty rows. bincount cannot hold -inf * 0, so impossible units are counted apart.
    possible = np.isfinite(value)
    number = rows.row_numbers
    summed = np.bincount(number, np.where(possible, value, 0.0), minlength=len(fits))
    impossible = np.bincount(number, ~possible, minlength=len(fits)) > 0
    total[fits] = np.where(impossible, -np.inf, summed)
    return total


def _by_row(
    values: NDArray[np.integer], chunk: int
) -> Iterator[tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.int64]]]:
    """Group places by value: (distinct values [m], their places one group after the other, group borders [m + 1])."""
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    borders = np.append(first, len(order))
    for start in range(0, len(distinct), chunk):
        stop = min(start + chunk, len(distinct))
        places = borders[start : stop + 1]
        yield distinct[start:stop], order[places[0] : places[-1]], places - places[0]
