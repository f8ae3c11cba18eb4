"""The labelled texts that a classifier is trained and tested on; unusable labels are refused before work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.errors import UserError, by_number, unknown
from epsilometer.core.file_names import listed
from epsilometer.core.mechanism import Mechanism, TakesTruths, Truths
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP
from epsilometer.models.classifier import Examples, Text

TRAIN, TEST, VALIDATION = "train", "test", "validation"


def labelled(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int, least: int = 1) -> pl.DataFrame:
    """The rows that a classifier of this label is trained and tested on, with their numbers (`row`) in the table.

    table: schema `PREPARED` and its labels. counts: the most texts of the splits train and test. Rows without the label
    are skipped; the seed chooses among the others, and chooses the same rows for every label that all rows have.
    least: the size of a batch.
    Raises UserError for a label that is not a column or has one class, for classes that only one split has, and for
    fewer training texts than a batch.
    """
    chosen = of_splits(table, label, counts, seed)
    _check(chosen, label, least)
    return chosen


def numbered(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int, least: int = 1) -> pl.DataFrame:
    """Return the rows that a regression of this label is trained and tested on, chosen as by `labelled`.

    Raises UserError for fewer training texts than a batch, for a label that is not a finite number, and for one that
    is the same for all texts of a split.
    """
    chosen = of_splits(table, label, counts, seed)
    _check_enough(chosen, label, least)
    read = chosen[label].cast(pl.Float64, strict=False)
    if wrong := [name for name, ok in zip(chosen[label], read.is_finite().fill_null(False), strict=True) if not ok]:
        raise UserError(
            f"label {label!r} is to be a number, and {len(wrong)} of {len(chosen)} chosen texts have another, such as "
            f"{wrong[0]!r}; correct them, or name the label under `tasks`",
            "EPS-S011",
        )
    for split in (TRAIN, TEST):
        if read.filter(chosen["split"] == split).n_unique() < 2:
            raise UserError(
                f"label {label!r} is the same number for all chosen texts of the split {split!r}, so no correlation "
                "with it is defined; take more texts (classification.texts)",
                "EPS-S012",
            )
    return chosen


def numbers_of(labels: Sequence[str]) -> NDArray[np.float64]:
    """Return [n]: labels as numbers."""
    return np.array(labels, np.float64)


def of_splits(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int) -> pl.DataFrame:
    """Return the rows that `labelled` chooses, from any splits and without checks."""
    if label not in table.columns:
        raise unknown("label", label, table.columns)
    order = Noise.named(len(table), seed, "labelled").uniforms()[:, 0]
    rows = table.with_columns(row=pl.int_range(pl.len()), _order=pl.Series(order)).filter(pl.col(label).is_not_null())
    parts = [rows.filter(split=split).sort("_order").head(count) for split, count in counts.items()]
    return pl.concat(parts).drop("_order")


def examples(
    rows: pl.DataFrame,
    label: str,
    split: str,
    texts: Mapping[int, Text] | None = None,
    *,
    sides: Sequence[str] = (),
) -> Examples:
    """Return the examples of a split, with their groups if the data set has any.

    texts: rewrites by row number, instead of the originals; sides: columns of pairs.
    """
    part = rows.filter(split=split)
    own: list[Text] = list(part.select(sides).iter_rows()) if sides else part["text"].to_list()
    groups = part[GROUP].cast(pl.String).to_list() if GROUP in part.columns else None
    return Examples(own if texts is None else [texts[row] for row in part["row"]], part[label].to_list(), groups)


def truths(rows: pl.DataFrame, labels: Sequence[str], dataset: str) -> Truths:
    """Return the true classes of the rows' texts, by text and label. Raises UserError for a row that lacks one."""
    for label in labels:
        if missing := (rows[label].is_null().arg_true() + 1).to_list():
            raise UserError(
                f"{dataset} has no {label} for {by_number('text', missing)} of {len(rows):,}, and a mechanism that is "
                f"told the true labels must be told those of every text; set datasets.{dataset}.complete: true, which "
                "leaves out texts that lack a label, or true_labels: false in the cell",
                "EPS-S013",
            )
    return {row["text"]: {label: row[label] for label in labels} for row in rows.to_dicts()}


def takes_truths(mechanism: Mechanism, wanted: bool | None = None) -> bool:
    """Return True if a mechanism receives the true labels.

    wanted: None means yes if it asks classifiers and runs `as_published`, as the papers' mechanisms do. Raises
    UserError if true labels are wanted but it asks no classifiers.
    """
    if isinstance(mechanism, TakesTruths):
        return bool(getattr(mechanism, "as_published", False)) if wanted is None else wanted
    if wanted:
        raise UserError(
            "true_labels: this mechanism asks no classifiers of an attribute, so that true labels do not change what "
            "it does; leave the setting out, or take idt, textfooler, textbugger, bae or llm_rewrite",
            "EPS-S014",
        )
    return False


def with_true_labels(mechanism: Mechanism, true_labels: Truths | None) -> Mechanism:
    """Return the mechanism, with the true labels if there are any."""
    if true_labels is not None and isinstance(mechanism, TakesTruths):
        return mechanism.with_truths(true_labels)
    return mechanism


def to_rewrite(
    table: pl.DataFrame, labels: Sequence[str], numbers: Sequence[str], counts: Mapping[str, int], seed: int, least: int
) -> pl.DataFrame:
    """Return the rows to rewrite, in the table's order: training and test texts of all labels."""
    parts = [labelled(table, label, counts, seed, least=least) for label in labels]
    parts += [numbered(table, label, counts, seed, least=least) for label in numbers]
    return pl.concat(parts).unique("row").sort("row")


def to_anonymize(
    table: pl.DataFrame, labels: Sequence[str], counts: Mapping[str, int], seed: int, least: int
) -> pl.DataFrame:
    """The rows of these splits whose rewrites are measured, in the table's order: those with any of the labels."""
    choose = partial(labelled, least=least) if TRAIN in counts else of_splits
    return pl.concat([choose(table, label, counts, seed) for label in labels]).unique("row").sort("row")


def _check_enough(rows: pl.DataFrame, label: str, least: int) -> None:
    train, test = (rows.filter(split=split) for split in (TRAIN, TEST))
    if len(train) < least:
        raise UserError(
            f"label {label!r} has {len(train)} training texts, fewer than a batch of {least}; give more texts (split "
            f"{TRAIN!r} of the data set, classification.texts) or a smaller classification.training.batch",
            "EPS-S015",
        )
    if test.is_empty():
        raise UserError(
            f"label {label!r} has no text in the split {TEST!r}, which classifiers are tested on; add one", "EPS-S016"
        )


def _check(rows: pl.DataFrame, label: str, least: int) -> None:
    _check_enough(rows, label, least)
    trained, tested = ({*rows.filter(split=split)[label]} for split in (TRAIN, TEST))
    if len(trained) < 2:
        raise UserError(
            f"label {label!r} must have at least 2 classes among the training texts, got "
            f"{listed(sorted(trained), 'class')}; leave the label out of classification.labels",
            "EPS-S017",
        )
    for missing, split, other in ((trained - tested, TEST, TRAIN), (tested - trained, TRAIN, TEST)):
        if missing:
            raise UserError(
                f"label {label!r}: the chosen {split} texts have none of {listed(sorted(missing), 'class')}, which the "
                f"{other} texts have, so F1 is not defined for it; take more texts (classification.texts), or leave "
                "out or merge rare classes",
                "EPS-S018",
            )
