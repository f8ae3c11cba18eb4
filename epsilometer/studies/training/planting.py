"""Canary texts planted in a training set by fair coins, to test how much a training reveals about the coins.

- `mislabelled`: texts of the training set that get a wrong label.
- `random`: texts of random words of the training set, with random labels.

The coins and labels come from `runs.canaries`. A planted training set is as sensitive as the original. The table
`PlantedTraining.key` contains the coins and texts. Keep the key private: it reveals what the training should hide about
canaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from epsilometer.core.errors import UserError, by_number
from epsilometer.studies.training.runs.canaries import coins, random_labels, wrong_labels
from epsilometer.text.words import words

Kind = Literal["mislabelled", "random"]
KINDS = ("mislabelled", "random")
CANARY, TEXT, VERSIONS, INCLUDED = "canary", "text", ("label", "other_label"), "included"


def random_texts(texts: Sequence[str], count: int, generator: np.random.Generator) -> list[str]:
    """Return `count` texts of random words.

    A text's length is that of a random text of the training set. Its words are uniform among the set's distinct words.
    """
    split = [words(text) for text in texts]
    vocabulary = sorted({word for words in split for word in words})
    lengths = np.array([len(words) for words in split if words])
    if not vocabulary:
        raise UserError("the texts contain no words for canaries; give texts with words", "EPS-S102")
    picked = generator.choice(lengths, count)
    return [" ".join(vocabulary[i] for i in generator.integers(len(vocabulary), size=size)) for size in picked]


@dataclass(frozen=True)
class PlantedTraining:
    """A planted training set.

    training: the table to train on.
    key: a row per canary with the columns `canary`, `kind`, `text`, `label`, `other_label` (null if canaries have no
        second version) and `included`.
    """

    training: pl.DataFrame
    key: pl.DataFrame


@dataclass(frozen=True)
class CanaryRequest:
    """A request for canaries.

    text, label: the columns of texts and labels.
    count:       the number of canaries.
    kind:        one of KINDS.
    replaced:    whether each canary has two versions, of which the training set contains one.
    """

    text: str
    label: str
    count: int
    kind: Kind = "mislabelled"
    replaced: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(
                f"kind must be mislabelled or random, got {self.kind!r}; gradient canaries would ruin a model, so use "
                "them in an audit that trains no model (one_run in params.yaml)",
                "EPS-S103",
            )
        if self.count < 2:
            raise UserError(
                f"count must be >= 2, got {self.count}; with 1,000 canaries about 5 nats can be proved", "EPS-S104"
            )


def plant(table: pl.DataFrame, request: CanaryRequest, generator: np.random.Generator) -> PlantedTraining:
    """Plant canaries in a table of labelled texts, and shuffle its rows. Random texts are null in other columns.

    Raises UserError if the text or label column has gaps, if there is a single class, or if there are more canaries
    than texts to mislabel.
    """
    classes = _classes(table, request)
    numbers = {value: i for i, value in enumerate(classes)}
    if request.kind == "mislabelled":
        rows = generator.choice(len(table), request.count, replace=False)
        right = np.array([numbers[value] for value in table[request.label].gather(rows)])
        labels = wrong_labels(right, len(classes), generator)
        texts, others = table.gather(rows), table.filter(~pl.int_range(pl.len()).is_in(rows.tolist()))
    else:
        labels = random_labels(request.count, len(classes), generator)
        made_up = random_texts(table[request.text].to_list(), request.count, generator)
        texts = pl.DataFrame({request.text: made_up}).select(
            pl.col(name) if name == request.text else pl.lit(None, kind).alias(name)
            for name, kind in table.schema.items()
        )
        others = table
    included = coins(request.count, generator)
    first, second = ([classes[i] for i in column] for column in (labels.first, labels.second))
    shown = [a if takes or not request.replaced else b for a, b, takes in zip(first, second, included, strict=True)]
    canaries = texts.with_columns(pl.Series(request.label, shown, dtype=table.schema[request.label]))
    there = canaries if request.replaced else canaries.filter(pl.Series(included))
    training = pl.concat([others, there])
    key = pl.DataFrame(
        {
            CANARY: np.arange(request.count),
            "kind": [request.kind] * request.count,
            TEXT: texts[request.text],
            VERSIONS[0]: pl.Series(first, dtype=table.schema[request.label]),
            VERSIONS[1]: pl.Series(
                second if request.replaced else [None] * request.count, dtype=table.schema[request.label]
            ),
            INCLUDED: included.astype(np.int64),
        }
    )
    return PlantedTraining(training[generator.permutation(len(training))], key)


def _classes(table: pl.DataFrame, request: CanaryRequest) -> list[object]:
    """Return the classes in ascending order. Raises UserError if canaries cannot be planted."""
    if request.text == request.label:
        raise UserError(
            f"text and label must be different columns, got {request.text!r} for both; name another column", "EPS-S105"
        )
    for name in (request.text, request.label):
        # Tables read from CSV files contain only strings, so their gaps are empty strings.
        gaps = table[name].is_null() | (table[name].cast(pl.String).str.strip_chars() == "")
        if missing := (gaps.arg_true() + 1).to_list():
            raise UserError(
                f"the column {name!r} has no value in {by_number('row', missing)} of {len(table):,}; leave these rows "
                "out",
                "EPS-S106",
            )
    classes = sorted(table[request.label].unique())
    if len(classes) < 2:
        raise UserError(
            f"the column {request.label!r} must have at least 2 classes to mislabel canaries, got {len(classes)}; name "
            "another column",
            "EPS-S107",
        )
    if request.kind == "mislabelled" and request.count > len(table):
        raise UserError(
            f"{request.count} canaries exceed the {len(table)} texts to mislabel; plant fewer canaries", "EPS-S108"
        )
    return classes
