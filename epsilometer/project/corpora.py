"""A data set of params.yaml, read and prepared, with the splits and groups that its entry asks for."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from epsilometer.corpora.files import Layout
from epsilometer.corpora.parts import GROUP, groups, resplit
from epsilometer.corpora.reading import Asked, Corpus, prepare, read
from epsilometer.project.params import Params


def corpus(params: Params, name: str, count: int | None = None) -> Corpus:
    """The prepared corpus of a data set; count: texts of a generator, those of its entry by default.

    Where the entry has `group` or `resplit`, the table has the grouping columns and `GROUP`, the number of each row's
    group (`corpora.parts`). Raises UserError for what cannot be read.
    """
    dataset = params.datasets[name]
    columns = tuple(dict.fromkeys((*dataset.labels, *dataset.group)))
    raw = read(
        params.path(dataset.source),
        text=dataset.text,
        labels=columns,
        split=dataset.split,
        rows=dataset.rows,
        layout=Layout(**dataset.layout.model_dump()),
        asked=Asked(params.audit.seed, count or dataset.count, dataset.part),
    )
    made = prepare(raw, columns)
    if not dataset.group and dataset.resplit is None:
        return made
    table = made.table.with_columns(pl.Series(GROUP, groups(made.table, dataset.group)))
    if dataset.resplit is not None:
        split = resplit(table[GROUP].to_numpy(), dataset.resplit.model_dump(), params.audit.seed)
        table = table.with_columns(split)
    return replace(made, table=table)
