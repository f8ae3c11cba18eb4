"""Outcomes of anonymisers, one per text: status, number of changed words, and number of queries.

A status also says whether a text was released unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import polars as pl
from numpy.typing import NDArray

FOUND = "found"
PART = "part"
NOTHING = "nothing to change"
MISSED = "missed"
UTILITY_LOST = "utility lost"
WITHHELD = "withheld"
CUT = "cut"
UNUSABLE = "unusable"
MEANING: Mapping[str, str] = {
    FOUND: "every classifier to deceive is deceived, and the labels to keep are kept",
    PART: "rewritten, but not every aim is reached",
    NOTHING: "no word can or must be changed; released unchanged",
    MISSED: "no rewrite that was tried hides the attribute; released unchanged",
    UTILITY_LOST: "each rewrite that hides the attribute loses a label to keep; released unchanged",
    WITHHELD: "not released: an empty text",
    CUT: "longer than the classifiers' window; the aim is not reached within it, and the rest is unchanged",
    UNUSABLE: "the model's answer is not a rewrite",
}
STATUSES = tuple(MEANING)

# Columns of outcomes in tables of rewrites.
COLUMNS: Mapping[str, type[pl.DataType]] = {
    "status": pl.String,
    "changed": pl.Int64,
    "words": pl.Int64,
    "asked": pl.Int64,
    "asked_victim": pl.Int64,
}


@dataclass(frozen=True)
class Outcomes:
    """The outcomes for n texts.

    status:       n statuses, each one of STATUSES.
    changed:      int64 [n], the number of changed words.
    words:        int64 [n], the number of words.
    asked:        int64 [n], queries to auxiliary classifiers, counted as distinct texts per classifier.
    asked_victim: int64 [n], queries to the victim, counted in the same way.
    """

    status: Sequence[str]
    changed: NDArray[np.int64]
    words: NDArray[np.int64]
    asked: NDArray[np.int64]
    asked_victim: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"outcomes must have fields of equal length, got {lengths}")
        if strange := {*self.status} - {*STATUSES}:
            raise ValueError(f"a status must be one of {', '.join(STATUSES)}, got {sorted(strange)[0]!r}")

    def __len__(self) -> int:
        return len(self.status)

    def take(self, rows: NDArray[np.integer]) -> Outcomes:
        """Return the rows with these numbers [m], in this order."""
        return Outcomes([self.status[i] for i in rows], *(column[rows] for column in self._counts))

    @classmethod
    def join(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Return the outcomes of all parts (at least one), one part after the other."""
        status = [status for part in parts for status in part.status]
        return cls(status, *map(np.concatenate, zip(*(part._counts for part in parts), strict=True)))

    @property
    def _counts(self) -> tuple[NDArray[np.int64], ...]:
        return self.changed, self.words, self.asked, self.asked_victim

    def table(self) -> pl.DataFrame:
        """Return the columns `COLUMNS`, one row per text."""
        return pl.DataFrame({name: getattr(self, name) for name in COLUMNS}, schema=dict(COLUMNS))

    @classmethod
    def of(cls, table: pl.DataFrame) -> Outcomes | None:
        """Return the outcomes in a table of rewrites; None if the table lacks an outcome."""
        if "status" not in table.columns or table["status"].has_nulls():
            return None
        return cls(table["status"].to_list(), *(table[name].to_numpy() for name in COLUMNS if name != "status"))
