"""Detection of rows that repeat at several losses, at the second budget (`TAIL`).

If delta at 4 nats, not the loss, limits the budget, a larger target allows no larger budget. The rows are then equal
up to random noise and the precision of the search. Rows also repeat if a mechanism lacks a budget at several losses for
the same reason. Tables show a repeated row once, at the smallest of its losses; the row is in the tiers of each loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from epsilometer.studies.leaderboard.tables import AVERAGE, TAIL

SAME = 1.03  # two budgets count as equal if their ratio is at most this, the precision of a search by attacks
_OF = ["mechanism", "lengths"]

Row = Mapping[str, Any]


def with_repeats(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with two more columns.

    `tail_binds` says whether delta at 4 nats, not the loss, limits the budget. `shown_at` is the loss at which a
    table shows the row. rows: schema `ROWS`, of one data set.
    """
    of_loss = rows.filter(budget=AVERAGE).select(*_OF, "loss", of_loss="epsilon")
    binds = (pl.col("budget") == TAIL) & pl.col("reason").is_null() & (pl.col("of_loss") > pl.col("epsilon"))
    marked = rows.join(of_loss, on=[*_OF, "loss"], how="left", maintain_order="left")
    marked = marked.with_columns(tail_binds=binds.fill_null(False)).drop("of_loss")
    shown: list[float] = [0.0] * len(marked)
    at_tail = marked.with_row_index("place").filter(budget=TAIL).sort("loss", maintain_order=True)
    for _, group in at_tail.group_by(_OF, maintain_order=True):
        before: list[Row] = []
        for row in group.to_dicts():
            same = _same(row, before)
            shown[row["place"]] = row["loss"] if same is None else same["loss"]
            before += [row] if same is None else []
    at = pl.Series("shown_at", shown, dtype=pl.Float64)
    return marked.with_columns(shown_at=pl.when(budget=TAIL).then(at).otherwise("loss"))


def _same(row: Row, before: Sequence[Row]) -> Row | None:
    """Return the first row at a smaller loss that `row` repeats, or None. before: the rows at smaller losses."""
    for other in before:
        if row["epsilon"] is None or other["epsilon"] is None:
            if row["epsilon"] is other["epsilon"] and row["reason"] == other["reason"]:
                return other
        elif row["tail_binds"] and other["tail_binds"]:
            ratio = row["epsilon"] / other["epsilon"]
            if max(ratio, 1 / ratio) <= SAME:
                return other
    return None
