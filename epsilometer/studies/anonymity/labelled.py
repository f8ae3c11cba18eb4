"""The labelled texts that a classifier is trained and tested on. Unusable labels raise an error before work starts."""

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
    """Return the rows that a classifier of this label is trained and tested on.

    The column `row` has their row numbers in the table. Rows without the label are skipped. The seed chooses among the
    other rows. Labels that no row lacks get the same rows.

    table: schema `PREPARED` and its labels.
    counts: the maximum number of texts of each split.
    least: the minimum number of training texts, the size of a batch.
    Raises UserError if the label is not a column or has fewer than two classes, if a class occurs in one split only, or
    if there are too few texts.
    """
    chosen = of_splits(table, label, counts, seed)
    _check(chosen, label, least)
    return chosen


def numbered(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int, least: int = 1) -> pl.DataFrame:
    """Return the rows that a regression of this label is trained and tested on, chosen as in `labelled`.

    Raises UserError if there are fewer training texts than a batch, if a label is not a finite number, or if all labels
    of a split are equal.
    """
    chosen = of_splits(table, label, counts, seed)
    _check_enough(chosen, label, least)
    read = chosen[label].cast(pl.Float64, strict=False)
    if wrong := [name for name, ok in zip(chosen[label], read.is_finite().fill_null(False), strict=True) if not ok]:
        raise UserError(
            f"label {label!r} must be a number, and {len(wrong)} of {len(chosen)} chosen texts have other values, such "
            f"as {wrong[0]!r}; correct them, or list the label under `tasks`",
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
    """Return the labels as numbers, [n]."""
    return np.array(labels, np.float64)


def of_splits(table: pl.DataFrame, label: str, counts: Mapping[str, int], seed: int) -> pl.DataFrame:
    """Return the rows that `labelled` would choose, from the splits in `counts` and without its checks."""
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
    """Return the examples of a split, with their groups if the data set has groups.

    texts: rewrites by row number, which replace the originals; None for the originals.
    sides: the two columns of texts, if the data set consists of pairs.
    """
    part = rows.filter(split=split)
    own: list[Text] = list(part.select(sides).iter_rows()) if sides else part["text"].to_list()
    groups = part[GROUP].cast(pl.String).to_list() if GROUP in part.columns else None
    return Examples(own if texts is None else [texts[row] for row in part["row"]], part[label].to_list(), groups)


def truths(rows: pl.DataFrame, labels: Sequence[str], dataset: str) -> Truths:
    """Return the true classes of the rows' texts, by text and label. Raises UserError if a row lacks a class."""
    for label in labels:
        if missing := (rows[label].is_null().arg_true() + 1).to_list():
            raise UserError(
                f"{dataset} has no {label} for {by_number('text', missing)} of {len(rows):,}, and a mechanism with "
                f"true labels needs them for every text; set datasets.{dataset}.complete: true, which leaves out texts "
                "that lack a label, or true_labels: false in the cell",
                "EPS-S013",
            )
    return {row["text"]: {label: row[label] for label in labels} for row in rows.to_dicts()}


def takes_truths(mechanism: Mechanism, wanted: bool | None = None) -> bool:
    """Return True if a mechanism receives the true labels.

    wanted: the setting `true_labels`. None means True for a mechanism that asks classifiers and runs `as_published`,
    because the papers give their mechanisms true labels.
    Raises UserError if `wanted` is True and the mechanism asks no classifiers.
    """
    if isinstance(mechanism, TakesTruths):
        return bool(getattr(mechanism, "as_published", False)) if wanted is None else wanted
    if wanted:
        raise UserError(
            "true_labels: this mechanism asks no classifier of an attribute, so true labels would not change its "
            "rewrites; leave the setting out, or use idt, textfooler, textbugger, bae or llm_rewrite",
            "EPS-S014",
        )
    return False


def with_true_labels(mechanism: Mechanism, true_labels: Truths | None) -> Mechanism:
    """Return the mechanism, with the true labels if they are given and the mechanism uses them."""
    if true_labels is not None and isinstance(mechanism, TakesTruths):
        return mechanism.with_truths(true_labels)
    return mechanism


def to_rewrite(
    table: pl.DataFrame, labels: Sequence[str], numbers: Sequence[str], counts: Mapping[str, int], seed: int, least: int
) -> pl.DataFrame:
    """Return the rows to rewrite, in the table's order: the training and test texts of all labels, each row once."""
    parts = [labelled(table, label, counts, seed, least=least) for label in labels]
    parts += [numbered(table, label, counts, seed, least=least) for label in numbers]
    return pl.concat(parts).unique("row").sort("row")


def to_anonymize(
    table: pl.DataFrame, labels: Sequence[str], counts: Mapping[str, int], seed: int, least: int
) -> pl.DataFrame:
    """Return the rows to rewrite and measure, in the table's order: the rows chosen for any label, each row once."""
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
