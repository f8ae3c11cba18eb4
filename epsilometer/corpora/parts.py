"""Disjoint parts of a data set: they share no text, no pair of texts and no author.

Two rows are in one group if they agree in the grouping columns (the same author or pair), or if their texts differ only
in case, white space and punctuation. If two rows are in the group of a third row, all three are in one group. A part
contains whole groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.file_names import absent, listed
from epsilometer.core.randomness import Noise
from epsilometer.text.words import words

GROUP = "group_number"  # the column of prepared tables that has the number of a row's group
PUBLIC = "public"  # the split of the texts that mechanisms may be built from


def groups(table: pl.DataFrame, columns: Sequence[str] = ()) -> NDArray[np.int64]:
    """Return the number of each row's group, [n], in order of first occurrence.

    table: column `text` and the grouping columns. Rows agree if all grouping columns agree: with `play` and `pair`, the
    same pair of the same play. A row without a value in one of these columns is grouped only by its text. Raises
    UserError for a missing column.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    for column in columns:
        if column not in table.columns:
            raise absent("grouping column", column, table.columns)
    keys = [pl.Series([" ".join(words(text)) for text in table["text"]])]
    if columns:
        unnamed = pl.any_horizontal(pl.col(columns).is_null())
        keys.append(table.select(pl.when(~unnamed).then(pl.struct(columns)).alias("key"))["key"])
    # The nodes of the graph are rows and keys, and its edges join each row to its keys.
    rows, nodes, count = [], [], len(table)
    for key in keys:
        held = key.is_not_null().to_numpy()
        own = _numbers(key.filter(held))
        rows.append(np.flatnonzero(held))
        nodes.append(own + count)
        count += int(own.max()) + 1 if len(own) else 0
    ends = np.concatenate(rows), np.concatenate(nodes)
    graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(count, count))
    component = connected_components(graph, directed=False)[1][: len(table)]
    return _numbers(pl.Series(component))


def places(of: NDArray[np.int64], *name: str | int) -> NDArray[np.float64]:
    """Return the place, [n] in (0, 1), of each row's group in a random order of the groups.

    The rows with a place below p form whole groups, and are about a share p of all rows. A smaller p selects a subset
    of these rows.

    of: [n], group numbers. name: the name of the random stream for the order.
    """
    sizes = np.bincount(of)
    order = np.argsort(Noise.named(len(sizes), "parts", *name).uniforms()[:, 0], kind="stable")
    ends = np.cumsum(sizes[order])
    middles = np.empty(len(sizes))
    middles[order] = (ends - sizes[order] / 2) / max(len(of), 1)
    return middles[of]


def held_out(of: NDArray[np.int64], labels: Sequence[Sequence[str | None]], *name: str | int) -> NDArray[np.bool_]:
    """Return a mask of held-out rows, [n]: about a tenth of each class, in whole groups.

    of: [n], group numbers. labels: for each label, the n classes; None, for a row without the label, counts as a class.
    name: the name of the random stream that orders the groups. Groups are visited in this order. A group is held out if
    each of its classes meets a condition: the class's rows held out so far, plus half of the class's rows in the group,
    are at most a tenth of the class. So at most a fifth of a class is held out, and nothing if all groups are large.
    """
    number_of: dict[tuple[int, str | None], int] = {}
    columns = [
        [number_of.setdefault((i, value), len(number_of)) for value in values] for i, values in enumerate(labels)
    ]
    counts = np.zeros((len(np.bincount(of)), len(number_of)), np.int64)
    for column in columns:
        np.add.at(counts, (of, np.array(column, np.int64)), 1)
    limits, taken = counts.sum(axis=0), np.zeros(len(number_of), np.int64)
    chosen = np.zeros(len(counts), bool)
    for group in np.argsort(Noise.named(len(counts), "held out", *name).uniforms()[:, 0], kind="stable"):
        own = counts[group]
        if (5 * (2 * taken + own) <= limits)[own > 0].all():
            chosen[group] = True
            taken += own
    return chosen[of]


def hashed(table: pl.DataFrame) -> NDArray[np.float64]:
    """Return a hash of each row's text, [n] in [0, 1). A group gets the hash of its alphabetically first text.

    table: column `text`, and `GROUP` if rows are grouped. The hash of a text that is alone in its group depends only on
    the text's words.
    """
    keys = pl.Series("key", [" ".join(words(text)) for text in table["text"]])
    if GROUP in table.columns:
        keys = table.with_columns(keys).select(pl.col("key").min().over(GROUP)).to_series()
    numbers = (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) for key in keys)
    return np.fromiter(numbers, np.uint64, len(keys)) / 2.0**64


def resplit(of: NDArray[np.int64], shares: Mapping[str, float], seed: int) -> pl.Series:
    """Return the split of each row, [n]. A group is drawn as a whole. "train" gets the remaining share.

    of: [n], group numbers. shares: the share of each split. Raises UserError if too few groups leave a split without a
    row.
    """
    place, bound = places(of, "resplit", seed), 0.0
    split = np.full(len(of), "train", object)
    for name, share in shares.items():
        split[(bound <= place) & (place < bound + share)] = name
        bound += share
    wanted = {"train", *(name for name, share in shares.items() if share > 0)}
    if empty := sorted(wanted - {*split}):
        raise UserError(
            f"resplit leaves the split {empty[0]!r} empty, since rows of a group stay together and there are "
            f"{of.max() + 1} groups; set larger shares, or group by fewer columns",
            "EPS-D035",
        )
    return pl.Series("split", split.tolist(), pl.String)


def check_apart(table: pl.DataFrame, of: NDArray[np.int64], place: str) -> None:
    """Raise UserError if rows of one group are in several parts.

    table: column `split`, the part of each row. of: [n], group numbers. place: the data set's place in params.yaml.
    """
    parts = table.select("split").with_columns(pl.Series("_group", of))
    shared = parts.group_by("_group").agg(pl.col("split").unique().sort()).filter(pl.col("split").list.len() > 1)
    if len(shared):
        between = shared.sort("_group")["split"][0].to_list()
        raise UserError(
            f"{place}: {len(shared)} texts, pairs or authors (rows with the same `group` or the same text) are in more "
            f"than one part, as in {listed(between, 'part')}, so test texts were seen in training; set resplit: "
            "{validation: 0.1, test: 0.2}, which draws the splits by group",
            "EPS-D036",
        )


def _numbers(values: pl.Series) -> NDArray[np.int64]:
    """Return a number for each value, [n]; distinct values are numbered in order of first occurrence."""
    table = pl.DataFrame({"value": values}).with_row_index("row")
    first = table.with_columns(pl.col("row").min().over("value").alias("first"))["first"]
    return first.rank("dense").cast(pl.Int64).to_numpy() - 1
