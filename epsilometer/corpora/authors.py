"""Selection of texts by author: authors with enough texts, and a limited number of texts of each author."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from epsilometer.core.errors import UserError, by_number
from epsilometer.core.file_names import no_column
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP
from epsilometer.runtime.progress import note
from epsilometer.text.words import words


def check_named(table: pl.DataFrame, columns: Sequence[str], place: str) -> None:
    """Raise UserError for rows without a value in one of the author columns."""
    for column in columns:
        if lacking := (table[column].is_null().arg_true() + 1).to_list():
            raise UserError(
                f"{place}: the author column {column!r} has no value in {by_number('text', lacking)} of "
                f"{len(table):,}; fill in the authors, or remove these rows from the source",
                "EPS-D005",
            )


def people_of(table: pl.DataFrame, column: str, texts: str, place: str) -> list[str]:
    """Return the author of each text. Each distinct text without an author is a person. A note counts these texts.

    column, texts: the columns of the authors and of the texts. Raises UserError if one of the columns is missing.
    """
    for kind, name in (("column of people", column), ("text column", texts)):
        if name not in table.columns:
            raise no_column(place, kind, name, table.columns)
    if nobody := table[column].null_count():
        note(f"{nobody:,} texts have no value in {column!r}; each distinct one of these texts counts as a person")
    own = pl.format("\0{}", pl.col(texts).fill_null(""))
    return table.select(pl.col(column).cast(pl.String).fill_null(own))[column].to_list()


def of_own_words(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table without rows that have the same words, in lower case, as an earlier row."""
    keys = pl.Series("_words", [" ".join(words(text)) for text in table["text"]])
    return table.filter(keys.is_first_distinct())


def at_most(table: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return at most `most` rows of each author, in the order of the table. Rows with the smallest ids are chosen.

    table: columns `id` (a hash of the text) and `GROUP` (the author's number).
    """
    return table.filter(pl.col("id").rank("ordinal").over(GROUP) <= most)


def chosen(table: pl.DataFrame, split: str, least: int, texts: int, seed: int) -> pl.DataFrame:
    """Return the table with only some authors in the split `split`. Other splits are unchanged.

    Authors with at least `least` texts in the split are taken in a random order, until together they have `texts`
    texts. Raises UserError if all these authors together have fewer texts. The caller adds the place in params.yaml.
    """
    counts = table.filter(split=split).group_by(GROUP).len().filter(pl.col("len") >= least).sort(GROUP)
    if counts["len"].sum() < texts:
        raise UserError(
            f"the {len(counts)} authors with at least {least} texts in the split {split!r} have "
            f"{counts['len'].sum():,} texts, fewer than the {texts:,} to audit; lower `texts` or `least`",
            "EPS-D006",
        )
    order = np.argsort(Noise.named(len(counts), "authors", seed).uniforms()[:, 0], kind="stable")
    before = np.cumsum(counts["len"].to_numpy()[order]) - counts["len"].to_numpy()[order]
    authors = counts[GROUP].gather(order[before < texts])
    return table.filter((pl.col("split") != split) | pl.col(GROUP).is_in(authors.implode()))
