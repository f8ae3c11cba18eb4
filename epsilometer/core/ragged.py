"""Rows of unequal length in two flat arrays, so that work on words needs no loop over texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ragged:
    """Rows of integers of unequal length.

    values: [total]; offsets: int64 [rows + 1]; row i is values[offsets[i]:offsets[i + 1]].
    """

    values: NDArray[np.integer]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Return a sequence of integer rows as Ragged."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter((v for row in rows for v in row), np.int64, int(lengths.sum()))
        return cls.from_lengths(values, lengths)

    @classmethod
    def from_lengths(cls, values: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ragged:
        """Return the flat values [total], split into rows of these lengths [rows]."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(values, offsets)

    @classmethod
    def single(cls, values: NDArray[np.integer]) -> Ragged:
        """Return the values [rows] as rows of one value each."""
        return cls(values, np.arange(len(values) + 1))

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        """Return the rows of all parts, one part after the other."""
        offsets, begin = np.zeros(sum(map(len, parts)) + 1, np.int64), 0
        for part in parts:
            np.add(part.offsets[1:], offsets[begin], out=offsets[begin + 1 : begin + 1 + len(part)])
            begin += len(part)
        return cls(np.concatenate([part.values for part in parts]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def is_single(self) -> bool:
        """True if every row has one value."""
        return len(self.values) == len(self) and bool((self.offsets[1:] > self.offsets[:-1]).all())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each row, [rows]."""
        return np.diff(self.offsets)

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The row number of each value, [total]."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The place of each value within its row, [total]."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def take(self, rows: NDArray[np.integer]) -> Ragged:
        """Return the rows with these numbers, in this order (repeats allowed)."""
        if self.is_single:
            return Ragged.single(self.values[rows])
        lengths = self.lengths[rows]
        out = Ragged.from_lengths(np.empty(0, self.values.dtype), lengths)
        index = np.arange(out.offsets[-1]) + np.repeat(self.offsets[rows] - out.offsets[:-1], lengths)
        return Ragged(self.values[index], out.offsets)

    def row(self, number: int) -> NDArray[np.integer]:
        """Return the values of one row."""
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def to_series(self) -> pl.Series:
        """Return the rows as a polars list column."""
        return pl.Series(pl.from_arrow(pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.values))))
