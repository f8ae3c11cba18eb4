"""Chunks: texts joined to longer ones, as in TOEFL11, which joins sentences by fives (IDT, appendix D)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def chunked(table: pl.DataFrame, size: int, agreeing: Sequence[str]) -> pl.DataFrame:
    """Return chunks of `size` texts that agree in these columns, in their order; the last chunk may have fewer texts.

    table: column `text`, whose blank rows are left out. Every other column has the value of a chunk's first text.
    Chunks are in the order of their first texts.
    """
    worded = table.filter(pl.col("text").str.strip_chars() != "")
    number = pl.int_range(pl.len()).over(agreeing) // size
    parts = worded.with_columns(number.alias("_chunk")).group_by(*agreeing, "_chunk", maintain_order=True)
    return parts.agg(pl.col("text").str.join(" "), pl.all().exclude("text").first()).select(table.columns)
