"""Which labelled texts a classifier is trained and tested on; unusable labels are refused before work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from epsilometer.core.errors import UserError, unknown
from epsilometer.core.file_names import listed
from epsilometer.core.mechanism import Truths
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Examples

TRAIN, TEST, VALIDATION = "train", "test", "validation"


def labelled(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int, least: int = 1) -> pl.DataFrame:
    """The rows that a classifier of this label is trained and tested on, with their number (`row`) in the table.

    table: schema `PREPARED` and its labels. counts: at most how many texts of the splits train and test. Rows
    without the label are skipped; the seed chooses among the others, and chooses the same rows for every label that all
    rows have. least: the size of a batch.
    Raises UserError for a label that is no column or has one class, for classes that only one split has, and for fewer
    training texts than a batch.
    """
    chosen = of_splits(table, label, counts, seed)
    _check(chosen, label, least)
    return chosen


def of_splits(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int) -> pl.DataFrame:
    """The rows that `labelled` chooses, of any splits and unchecked."""
    if label not in table.columns:
        raise unknown("label", label, table.columns)
    order = Noise.named(len(table), seed, "labelled").uniforms()[:, 0]
    rows = table.with_columns(row=pl.int_range(pl.len()), _order=pl.Series(order)).filter(pl.col(label).is_not_null())
    parts = [rows.filter(split=split).sort("_order").head(count) for split, count in counts.items()]
    return pl.concat(parts).drop("_order")


def examples(rows: pl.DataFrame, label: str, split: str, texts: Mapping[int, str] | None = None) -> Examples:
    """The examples of a split; texts: rewrites by row number, in place of the original texts."""
    part = rows.filter(split=split)
    own = part["text"].to_list() if texts is None else [texts[row] for row in part["row"]]
    return Examples(own, part[label].to_list())


def truths(rows: pl.DataFrame, labels: Sequence[str]) -> Truths:
    """The true classes of the rows' texts, by text and label, of the labels that a text has."""
    columns = {label: rows[label].to_list() for label in labels}
    return {
        text: {label: of[i] for label, of in columns.items() if of[i] is not None}
        for i, text in enumerate(rows["text"].to_list())
    }


def to_rewrite(
    table: pl.DataFrame,
    tasks: Sequence[str],
    attributes: Sequence[str],
    counts: Mapping[str, int],
    seed: int,
    least: int,
) -> pl.DataFrame:
    """The rows whose rewrites are needed, in the table's order: training texts; test texts of attributes too."""
    parts = [labelled(table, label, counts, seed, least=least).filter(split=TRAIN) for label in tasks]
    parts += [labelled(table, label, counts, seed, least=least) for label in attributes]
    return pl.concat(parts).unique("row").sort("row")


def to_anonymize(
    table: pl.DataFrame, labels: Sequence[str], counts: Mapping[str, int], seed: int, least: int
) -> pl.DataFrame:
    """The rows of these splits whose rewrites are measured, in the table's order: those of any of the labels."""
    choose = partial(labelled, least=least) if TRAIN in counts else of_splits
    return pl.concat([choose(table, label, counts, seed) for label in labels]).unique("row").sort("row")


def _check(rows: pl.DataFrame, label: str, least: int) -> None:
    train, test = (rows.filter(split=split) for split in (TRAIN, TEST))
    if len(train) < least:
        raise UserError(
            f"label {label!r} has {len(train)} training texts, fewer than a batch of {least}; give more texts (split "
            f"{TRAIN!r} of the data set, classification.texts) or a smaller classification.training.batch"
        )
    trained, tested = ({*part[label]} for part in (train, test))
    if not tested:
        raise UserError(f"label {label!r} has no text in the split {TEST!r}, which classifiers are tested on; add one")
    if len(trained) < 2:
        raise UserError(
            f"label {label!r} must have at least 2 classes among the training texts, got "
            f"{listed(sorted(trained), 'class')}; leave the label out of classification.labels"
        )
    for missing, split, other in ((trained - tested, TEST, TRAIN), (tested - trained, TRAIN, TEST)):
        if missing:
            raise UserError(
                f"label {label!r}: the chosen {split} texts have none of {listed(sorted(missing), 'class')}, which the "
                f"{other} texts have, so F1 is not defined for it; take more texts (classification.texts), or leave "
                "out or merge rare classes"
            )
