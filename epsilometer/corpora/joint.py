"""Joint attributes: `a,b` is a label whose classes are pairs of a class of column a and a class of column b."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def parts(label: str) -> list[str]:
    """Return the columns that a label joins. A label without a comma is one column."""
    return [part.strip() for part in label.split(",")]


def with_joint(table: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Return the table with a joint column for each label `a,b`, unless the table has a column of that name.

    A text without a value in one of the two columns has no joint value. A comma in a value is escaped, so that
    different pairs are different classes.
    """
    joined = [label for label in labels if label not in table.columns and {*parts(label)} <= {*table.columns}]
    return table.with_columns(
        pl.concat_str(
            [pl.col(part).cast(pl.String).str.replace_all(r"([\\,])", r"\$1") for part in parts(label)], separator=","
        ).alias(label)
        for label in joined
    )
