"""The answer on each data set, as data: the decision on each mechanism and budget, and the utility of rewrites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.status import Status
from epsilometer.report.cells import average
from epsilometer.report.cells.use import UNKNOWN, Kept, Uses

Budgets = Sequence[tuple[str, float | None]]  # mechanisms with their budgets
Counts = Mapping[tuple[str, str, float | None, str], tuple[int, int]]
"""The numbers of surviving and of all identifiers, by data set, mechanism, epsilon and limit."""


@dataclass(frozen=True)
class Answer:
    """The decisions on a data set.

    by: the mechanisms (without controls) with their budgets, by decision. hardly: mechanisms that truncate most texts
    or lack most words of the data set; they are never recommended. uses: from `use.uses`. rows: the data set's rows of
    `DECISIONS`, without controls.
    """

    dataset: str
    by: Mapping[str, Budgets]
    hardly: Sequence[str] = ()
    uses: Uses = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()

    @property
    def audited(self) -> Budgets:
        """All audited mechanisms with their budgets."""
        return [cell for cells in self.by.values() for cell in cells]

    @property
    def usable(self) -> Budgets:
        """The mechanisms and budgets within the limits, without the mechanisms in `hardly`."""
        return [cell for cell in self.by.get(Status.WITHIN, ()) if cell[0] not in self.hardly]

    def use(self, cell: tuple[str, float | None]) -> Kept:
        """Return the utility of the rewrites of a cell."""
        return self.uses.get((self.dataset, *cell), UNKNOWN)

    def keeping(self, more: bool | None) -> Budgets:
        """Return the usable cells whose rewrites have this value of `Kept.more`."""
        return [cell for cell in self.usable if self.use(cell).more is more]

    def limit(self, cell: tuple[str, float | None], limit: str) -> Mapping[str, Any] | None:
        """Return the row of a limit of a cell; None if it does not exist."""
        of = ((row["mechanism"], row["epsilon"], row["limit"]) for row in self.rows)
        return next((row for row, key in zip(self.rows, of, strict=True) if key == (*cell, limit)), None)

    def worst(self, cells: Budgets) -> Mapping[str, Any] | None:
        """Return the row of the cell that has the worst pair among these cells."""
        whole = [row for row in self.rows if row["limit"] == ALL]
        return average.worst([row for row in whole if (row["mechanism"], row["epsilon"]) in cells])

    def least(self) -> Mapping[str, Any] | None:
        """Return the row of the most exceeded limit in the cell that exceeds its limits least."""
        over: dict[tuple[str, float | None], Mapping[str, Any]] = {}
        for row in self.rows:
            if row["limit"] != ALL and row["decision"] == Status.BEYOND:
                cell = (row["mechanism"], row["epsilon"])
                over[cell] = max(row, over.get(cell, row), key=_excess)
        return min(over.values(), key=_excess, default=None)


def _excess(row: Mapping[str, Any]) -> float:
    """Return the lower bound as a multiple of the allowed value."""
    return float(row["low"] / row["allowed"])


def answers(table: pl.DataFrame, unread: Mapping[tuple[str, str], Any], keeps: Uses) -> list[Answer]:
    """Return the answer of each data set.

    table: schema `DECISIONS`; unread: from `TextResults.unread`; keeps: from `use.uses`.
    """
    every = []
    for (dataset,), rows in table.group_by("dataset", maintain_order=True):
        by: dict[str, list[tuple[str, float | None]]] = {}
        cells = rows.filter(~pl.col("control")).to_dicts()
        for row in cells:
            if row["limit"] == ALL:
                by.setdefault(row["decision"], []).append((row["mechanism"], row["epsilon"]))
        hardly = [name for of, name in unread if of == dataset]
        every.append(Answer(str(dataset), by, hardly, uses=keeps, rows=cells))
    return every


def largest(cells: Budgets) -> tuple[str, float | None]:
    """Return the first mechanism by name, at its largest budget."""
    name = min(names_of(cells))
    return max((cell for cell in cells if cell[0] == name), key=lambda cell: cell[1] or 0.0)


def names_of(cells: Budgets) -> list[str]:
    """Return the names of the mechanisms, sorted."""
    return sorted({name for name, _ in cells})
