"""The four parts of a data set: auxiliaries, victims, validation, test.

Auxiliaries, which anonymisers use in their search, train on a share of the train split. Victims are the classifiers
that anonymisers should deceive, and also serve as attackers. Victims train on the rest of the train split, or on all of
it if there are no auxiliaries. A classifier that trains for several epochs holds out a tenth of its texts to choose the
best epoch. Settings and thresholds are chosen on validation texts, on which nothing is trained. Results are measured on
test texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.corpora.parts import GROUP, check_apart, groups, held_out, places
from epsilometer.project.paths import prepared
from epsilometer.studies.anonymity.params import AnonymityParams

AUXILIARIES, VICTIMS, VALIDATION, TEST = "auxiliaries", "train", "validation", "test"


def parted(params: AnonymityParams, dataset: str) -> pl.DataFrame:
    """Return the prepared texts of a data set. The column `split` contains the part; "train" is the victims' part."""
    return with_parts(params, dataset, prepared(dataset))


def with_parts(params: AnonymityParams, dataset: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return a prepared table with its parts, as `parted` does.

    Raises UserError if a text, a pair or an author would be in two parts.
    """
    shares = [entry.share for entry in params.auxiliaries.values() if entry.dataset == dataset]
    return marked(params, dataset, table, max(shares)) if shares else table


def marked(params: AnonymityParams, dataset: str, table: pl.DataFrame, share: float) -> pl.DataFrame:
    """Return a prepared table in which a share of the train split, in whole groups, is the auxiliaries' part."""
    taken = pl.Series(_places(params, dataset, table) < share)
    return table.with_columns(pl.when(taken).then(pl.lit(AUXILIARIES)).otherwise("split").alias("split"))


def auxiliary_texts(params: AnonymityParams, name: str, table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of a prepared table that an entry of `auxiliaries` trains on, and its held-out rows.

    About a tenth of each class is held out; the loss on these rows chooses the best of several epochs. If two entries
    of one data set have different shares, the larger set of rows contains the smaller one. Raises UserError as
    `check_classes` does.
    """
    entry = params.auxiliaries[name]
    parts, labels = marked(params, entry.dataset, table, entry.share), (*entry.attributes, *entry.tasks)
    check_classes(parts, labels, entry.dataset)
    mine = (parts["split"] == AUXILIARIES).to_numpy()
    texts, of = table.filter(mine), _groups(table)[mine]
    held = held_out(of, [texts[label].to_list() for label in labels], params.audit.seed)
    return texts.filter(~held), texts.filter(held)


def check_parts(params: AnonymityParams, dataset: str, table: pl.DataFrame) -> None:
    """Raise UserError if a text, a pair or an author is in two parts, and as `check_classes` does.

    table: as `with_parts` returns it. A data set is not checked if it has neither auxiliaries nor cells under
    `anonymity`.
    """
    entries = [entry for entry in params.auxiliaries.values() if entry.dataset == dataset]
    measured = {cell.part for cell in params.anonymity.values() if cell.dataset == dataset}
    if not entries and not measured:
        return
    check_apart(table, _groups(table), f"datasets.{dataset}")
    named = [entry for entry in (params.classification.labels.get(dataset), *entries) if entry is not None]
    labels = [label for entry in named for label in (*entry.tasks, *entry.attributes)]
    check_classes(table, labels, dataset, others={AUXILIARIES, *measured})


def check_classes(
    table: pl.DataFrame, labels: Iterable[str], dataset: str, others: Collection[str] = (AUXILIARIES,)
) -> None:
    """Raise UserError if a part lacks a class that another part has.

    The parts are the victims' part, the test part and, if they have texts, the parts in `others`.
    """
    asked_of = {VICTIMS, TEST, *({*others} & {*table["split"]})}
    needed = [part for part in (AUXILIARIES, VICTIMS, VALIDATION, TEST) if part in asked_of]
    for label in dict.fromkeys(labels):
        parts = dict(table.drop_nulls(label).group_by("split").agg(pl.col(label).unique()).iter_rows())
        every = {*chain(*(parts.get(part, []) for part in needed))}
        for part in needed:
            if missing := sorted(every - {*parts.get(part, [])}):
                raise UserError(
                    f"datasets.{dataset}: the part {part!r} has no text of {listed(missing, 'class')} of label "
                    f"{label!r}, which another part has; leave out or merge rare "
                    "classes, or split the data set again (resplit)",
                    "EPS-S035",
                )


def _groups(table: pl.DataFrame) -> NDArray[np.int64]:
    return table[GROUP].to_numpy() if GROUP in table.columns else groups(table)


def _places(params: AnonymityParams, dataset: str, table: pl.DataFrame) -> NDArray[np.float64]:
    """Return the place [n] in (0, 1) of each row of the train split (`corpora.parts.places`); 1 for other rows."""
    of = _groups(table)
    check_apart(table, of, f"datasets.{dataset}")
    train = (table["split"] == VICTIMS).to_numpy()
    place = np.ones(len(table))
    place[train] = places(of[train], "auxiliaries", params.audit.seed)
    return place
