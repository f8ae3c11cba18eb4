"""Inference of an attribute from rewrites that a file records.

Rewrites are looked up by their originals. Texts that differ only in white space, or in the Unicode composition of their
characters, count as one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from epsilometer.auditing.attributes.one_call import REWRITE, STANDARD, AnonymityDesign, anonymity
from epsilometer.core.errors import UserError, by_number
from epsilometer.core.file_names import no_column
from epsilometer.corpora import files
from epsilometer.corpora.reading import check_strings, layout_free

_ORIGINAL = "original"


def pairs(path: Path, layout: files.Layout = files.PLAIN) -> pl.DataFrame:
    """Return the pairs of a file (`paired`). Raises UserError for a damaged file."""
    return paired(files.read(path, layout), path)


def paired(table: pl.DataFrame, path: str | Path = "the table of rewrites") -> pl.DataFrame:
    """Return originals and their rewrites, as columns original, rewrite, and epsilon (Float64, null if absent).

    path: the table's name in messages. Raises UserError for missing columns and values, and for two rewrites of one
    original at one epsilon.
    """
    for column in (_ORIGINAL, REWRITE):
        if column not in table.columns:
            raise no_column(path, "column", column, table.columns)
        check_strings(table, column, str(path))
    epsilon = pl.col("epsilon") if "epsilon" in table.columns else pl.lit(None)
    recorded = table.select(
        _ORIGINAL, REWRITE, epsilon=epsilon.cast(pl.Float64, strict=False), key=layout_free(_ORIGINAL)
    )
    gaps = recorded[REWRITE].is_null() | recorded[_ORIGINAL].is_null()
    if missing := (gaps.arg_true() + 1).to_list():
        raise UserError(
            f"{path}: the original or the rewrite is missing in {by_number('row', missing)} of {len(recorded):,}; "
            "leave these rows out, since an empty rewrite would count as perfectly hidden",
            "EPS-S036",
        )
    again = ~recorded.select(pl.struct("key", "epsilon").is_first_distinct()).to_series()
    if twice := (again.arg_true() + 1).to_list():
        raise UserError(
            f"{path}: the original of {by_number('row', twice)} has a rewrite in an earlier row; keep one rewrite "
            "per text and epsilon",
            "EPS-S037",
        )
    return recorded


def recorded_anonymity(
    texts: pl.DataFrame,
    rewrites: pl.DataFrame,
    training: pl.DataFrame | None = None,
    *,
    attribute: str,
    keep: str | None = None,
    design: AnonymityDesign = STANDARD,
) -> pl.DataFrame:
    """Return the rows of `anonymity` at each recorded epsilon, with a first column `epsilon`.

    texts: the test texts, columns `text` and the labels. rewrites: as `pairs` returns them; every test text needs one.
    training: as for `anonymity`; attackers learn from the training texts that have a rewrite in `rewrites`.
    Raises UserError for a text without a rewrite.
    """
    return pl.concat(
        anonymity(
            test["text"].to_list(),
            test[REWRITE].to_list(),
            {name: test[name].to_list() for name in test.columns},
            learned_from,
            attribute=attribute,
            keep=keep,
            design=design,
        ).select(pl.lit(epsilon, pl.Float64).alias("epsilon"), pl.all())
        for epsilon, test, learned_from in _by_epsilon(texts, rewrites, training)
    )


def _by_epsilon(
    texts: pl.DataFrame, rewrites: pl.DataFrame, training: pl.DataFrame | None
) -> Iterator[tuple[float | None, pl.DataFrame, pl.DataFrame | None]]:
    for (epsilon,), some in rewrites.group_by("epsilon", maintain_order=True):
        test = _with_rewrites(texts, some)
        if missing := (test[REWRITE].is_null().arg_true() + 1).to_list():
            raise UserError(
                f"no rewrite is recorded for {by_number('text', missing)} of {len(test):,}; record one for every "
                "text (an unchanged text is its own rewrite)",
                "EPS-S038",
            )
        number = None if epsilon is None else float(str(epsilon))
        yield number, test, None if training is None else _with_rewrites(training, some)


def _with_rewrites(texts: pl.DataFrame, rewrites: pl.DataFrame) -> pl.DataFrame:
    joined = texts.with_columns(key=layout_free("text")).join(
        rewrites.select("key", REWRITE), on="key", how="left", maintain_order="left"
    )
    return joined.drop("key")
