"""Distinct trials: if rewrites come from a short public list, few combinations of candidates and rewrite are distinct.

The distinct combinations are called cases, and work is done once per case. For example, if two texts are each rewritten
as one of the two, all trials together have at most four cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.mechanism import Repeated, Rewrites
from epsilometer.core.ragged import Ragged

_MOST = 1 << 12  # largest number of combinations of candidates and a rewrite


@dataclass(frozen=True)
class Cases:
    """The d cases of n trials.

    rewrites: [d], the rewrite of each case. candidates: [d, k]. number: [n], the case of each trial.
    """

    rewrites: Rewrites
    candidates: NDArray[np.integer]
    number: NDArray[np.intp]


def cases(rewrites: Rewrites, candidates: NDArray[np.integer]) -> Cases | None:
    """Return the cases of n trials; None if too many are possible.

    candidates: [n, k] text numbers. Also None if rewrites are not `Repeated`, or have outcomes, latents or other units.
    """
    texts, units, k = rewrites.texts, rewrites.units, candidates.shape[1]
    if not isinstance(texts, Repeated) or rewrites.latents is not None or rewrites.outcomes is not None:
        return None
    among = int(candidates.max(initial=0)) + 1
    if len(texts.texts) * among**k > _MOST:
        return None
    if units is not None and not (units.is_single and np.array_equal(units.values, texts.numbers)):
        return None
    code = texts.numbers.astype(np.intp)
    for column in candidates.T:
        code *= among
        code += column
    present = np.zeros(len(texts.texts) * among**k, bool)
    present[code] = True
    output, *sets = np.unravel_index(np.flatnonzero(present), (len(texts.texts), *[among] * k))
    released = output.astype(texts.numbers.dtype)
    return Cases(
        Rewrites(Repeated(texts.texts, released), None if units is None else Ragged.single(released)),
        np.stack(sets, axis=1).astype(candidates.dtype),
        (np.cumsum(present) - 1).take(code),
    )


@dataclass(frozen=True)
class ByCase:
    """A table [n, k] of trials stored by case: rows [d, k], and the case of each trial [n]."""

    rows: NDArray[np.floating]
    number: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, part: slice) -> ByCase:
        return ByCase(self.rows, self.number[part])

    @property
    def whole(self) -> NDArray[np.floating]:
        """Return the table [n, k]."""
        return self.rows[self.number]

    def of_slots(
        self,
        measure: Callable[[NDArray[np.floating], NDArray[np.integer]], NDArray[np.float64]],
        slots: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """Return the measure [n] of each trial's row at its slot. slots: [n]. Each case is measured once per slot."""
        count, k = self.rows.shape
        each = [measure(self.rows, np.full(count, slot)) for slot in range(k)]
        place = slots.astype(np.intp)
        place *= count
        place += self.number
        return np.concatenate(each).take(place)


Table = NDArray[np.floating] | ByCase
