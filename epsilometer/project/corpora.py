"""A data set of params.yaml, read and prepared, with the splits and groups that its entry asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.file_names import absent
from epsilometer.corpora.authors import at_most, check_named, chosen, of_own_words
from epsilometer.corpora.files import Layout
from epsilometer.corpora.parts import GROUP, PUBLIC, groups, hashed, resplit
from epsilometer.corpora.reading import Corpus, GeneratorRequest, check_sides, prepare, read
from epsilometer.project.params import ProjectParams
from epsilometer.project.sections import Dataset


def corpus(params: ProjectParams, name: str, count: int | None = None) -> Corpus:
    """Return the prepared corpus of a data set. count: how many texts a generator writes; by default as in params.yaml.

    If the entry has `group` or `resplit`, the table has the grouping columns, and a column `GROUP` with the number of
    each row's group (`corpora.parts`). A table of pairs has a column for each side. Raises UserError for unreadable
    texts, and for a pair that lacks a side.
    """
    dataset = params.datasets[name]
    columns = tuple(dict.fromkeys((*dataset.labels, *dataset.group, *dataset.sides)))
    joined_by = dataset.chunks.of if dataset.chunks else ()
    raw = read(
        params.path(dataset.source),
        text=dataset.text,
        labels=tuple(dict.fromkeys((*columns, *joined_by, *dataset.without))),
        split=dataset.split,
        rows=dataset.rows,
        layout=Layout(**dataset.layout.model_dump()),
        request=GeneratorRequest(params.audit.seed, count or dataset.count, dataset.part),
    )
    for column, values in dataset.without.items():
        raw = _without(raw, column, values, f"datasets.{name}.without")
    check_sides(raw, dataset.sides, f"datasets.{name}")
    if dataset.chunks:
        raw = chunked(raw, dataset.chunks.texts, tuple(dict.fromkeys(("split", *dataset.labels, *joined_by))))
    texts = prepare(raw, columns)
    for label, merged in dataset.merge.items():
        texts = replace(texts, table=_merged(texts.table, label, merged, f"datasets.{name}.merge"))
    for label, classes in dataset.classes.items():
        texts = replace(texts, table=_of_classes(texts.table, label, classes, f"datasets.{name}.classes"))
    table = texts.table.drop_nulls(dataset.labels) if dataset.complete else texts.table
    if dataset.length is not None:
        table = _of_length(table, dataset.length.least, dataset.length.most, place=f"datasets.{name}.length")
    return replace(texts, table=_parted(params, dataset, table, f"datasets.{name}"))


def _parted(params: ProjectParams, dataset: Dataset, table: pl.DataFrame, place: str) -> pl.DataFrame:
    """Return the table with groups and splits, and with only the chosen authors in the audited split."""
    if dataset.authors is not None:
        check_named(table, dataset.group, f"{place}.authors")
        table = of_own_words(table)
    if dataset.group or dataset.resplit is not None:
        table = table.with_columns(pl.Series(GROUP, groups(table, dataset.group)))
    if dataset.authors is not None:
        table = at_most(table, dataset.authors.most)
    if dataset.resplit is not None:
        split = resplit(table[GROUP].to_numpy(), dataset.resplit.model_dump(), params.audit.seed)
        table = table.with_columns(split)
    if dataset.public_part is not None:
        table = _with_public(table, dataset.public_part, f"{place}.public_part")
    if dataset.authors is not None:
        wanted = dataset.authors
        try:
            table = chosen(table, dataset.use, wanted.least, texts=wanted.texts, seed=params.audit.seed)
        except UserError as error:
            raise error.at(f"{place}.authors") from None
    return table


def _without(raw: pl.DataFrame, column: str, values: Sequence[str], place: str) -> pl.DataFrame:
    """Return the rows that have none of these values in the column. Raises UserError for a value that no row has."""
    there = raw[column].cast(pl.String)
    for value in values:
        if value not in there:
            raise absent(f"value in {place}.{column}", value, there.drop_nulls().unique())
    return raw.filter(~there.is_in(list(values)).fill_null(False))


def _of_length(table: pl.DataFrame, fewest: int, most: int, place: str) -> pl.DataFrame:
    """Return the texts whose number of words is within bounds, both included. Raises UserError if none is left."""
    left = table.filter(pl.col("words").is_between(fewest, most))
    if left.is_empty():
        raise UserError(
            f"{place}: none of {len(table):,} texts has from {fewest} to {most} words; give other bounds", "EPS-P052"
        )
    return left


def _with_public(table: pl.DataFrame, share: float, place: str) -> pl.DataFrame:
    """Return the table with a split `public`. Raises UserError if it exists, or if one side would be empty."""
    if PUBLIC in table["split"]:
        raise UserError(
            f"{place}: the data set has a split {PUBLIC!r} of its own; leave {place.split('.')[-1]} out", "EPS-P053"
        )
    public = pl.Series(hashed(table) < share)
    if not public.any() or public.all():
        raise UserError(
            f"{place} must leave texts on both sides, and {share:g} of {len(table)} texts makes {public.sum()} public; "
            "give another share",
            "EPS-P054",
        )
    return table.with_columns(pl.when(public).then(pl.lit(PUBLIC)).otherwise("split").alias("split"))


def _merged(table: pl.DataFrame, label: str, merged: Mapping[str, Sequence[str]], place: str) -> pl.DataFrame:
    """Return the table with merged classes of a label; all other classes become null. Raises as `_of_classes` does."""
    table = _of_classes(table, label, [part for parts in merged.values() for part in parts], place)
    names = {part: name for name, parts in merged.items() for part in parts}
    return table.with_columns(pl.col(label).replace_strict(names, default=None, return_dtype=pl.String))


def _of_classes(table: pl.DataFrame, label: str, classes: Sequence[str], place: str) -> pl.DataFrame:
    """Return the table with only these classes of a label; all other classes become null.

    Raises UserError for an unknown label or class.
    """
    if label not in table.columns:
        raise unknown(f"label in {place}", label, table.columns)
    for name in classes:
        if name not in table[label]:
            raise absent(f"class in {place}.{label}", name, table[label].drop_nulls().unique())
    return table.with_columns(pl.when(pl.col(label).is_in(list(classes))).then(pl.col(label)).alias(label))


def chunked(table: pl.DataFrame, size: int, agreeing: Sequence[str]) -> pl.DataFrame:
    """Join texts that have equal values in the columns `agreeing` into chunks of `size` texts.

    The last chunk of each combination of values may be smaller.

    The IDT paper (appendix D) joins sentences of TOEFL11 in fives in this way. Blank texts are left out. Columns other
    than `text` have the values of a chunk's first text. Chunks are in the order of their first texts.
    """
    worded = table.filter(pl.col("text").str.strip_chars() != "")
    number = pl.int_range(pl.len()).over(agreeing) // size
    parts = worded.with_columns(number.alias("_chunk")).group_by(*agreeing, "_chunk", maintain_order=True)
    return parts.agg(pl.col("text").str.join(" "), pl.all().exclude("text").first()).select(table.columns)
