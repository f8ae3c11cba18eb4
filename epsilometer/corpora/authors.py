"""Texts of chosen authors: authors first, then texts of each, so that every author has enough and none has most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from epsilometer.core.errors import UserError, by_number
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP
from epsilometer.text.words import words


def check_named(table: pl.DataFrame, columns: Sequence[str], place: str) -> None:
    """Raise UserError for rows without a value in one of the columns that name an author."""
    for column in columns:
        if lacking := (table[column].is_null().arg_true() + 1).to_list():
            raise UserError(
                f"{place}: the author's column {column!r} has no value in {by_number('text', lacking)} of "
                f"{len(table):,}; fill it in, or leave these rows out of the source",
                "EPS-D005",
            )


def of_own_words(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without those whose words, in lower case, are the words of an earlier row."""
    keys = pl.Series("_words", [" ".join(words(text)) for text in table["text"]])
    return table.filter(keys.is_first_distinct())


def at_most(table: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return the first `most` rows of each author by id, in the order of the table.

    table: columns `id` and `GROUP`, the author's number. An id is a hash of the text.
    """
    return table.filter(pl.col("id").rank("ordinal").over(GROUP) <= most)


def chosen(table: pl.DataFrame, split: str, least: int, texts: int, seed: int) -> pl.DataFrame:
    """Return the table with chosen authors alone in a split; other splits stay as they are.

    Of authors with at least `least` texts in the split, in a random order, the first that have `texts` texts in all.
    Raises UserError, without its place, if they have fewer.
    """
    counts = table.filter(split=split).group_by(GROUP).len().filter(pl.col("len") >= least).sort(GROUP)
    if counts["len"].sum() < texts:
        raise UserError(
            f"{len(counts)} authors have at least {least} texts in the split {split!r}, {counts['len'].sum():,} in "
            f"all, fewer than the {texts:,} to audit; give a smaller number (texts), or take authors "
            "with fewer (least)",
            "EPS-D006",
        )
    order = np.argsort(Noise.named(len(counts), "authors", seed).uniforms()[:, 0], kind="stable")
    before = np.cumsum(counts["len"].to_numpy()[order]) - counts["len"].to_numpy()[order]
    authors = counts[GROUP].gather(order[before < texts])
    return table.filter((pl.col("split") != split) | pl.col(GROUP).is_in(authors.implode()))
