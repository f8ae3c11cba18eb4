"""Joint attributes: `a,b` names the label whose classes are the pairs of classes of the columns a and b."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def parts(label: str) -> list[str]:
    """Return the columns that a label joins; one for a single attribute."""
    return [part.strip() for part in label.split(",")]


def with_joint(table: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Return the table with a column for each label that joins columns of it; a column of the label's own name wins.

    A text that lacks one of the values lacks the joint value. A comma in a value is escaped, so that different pairs
    are different classes.
    """
    joined = [label for label in labels if label not in table.columns and {*parts(label)} <= {*table.columns}]
    return table.with_columns(
        pl.concat_str(
            [pl.col(part).cast(pl.String).str.replace_all(r"([\\,])", r"\$1") for part in parts(label)], separator=","
        ).alias(label)
        for label in joined
    )
