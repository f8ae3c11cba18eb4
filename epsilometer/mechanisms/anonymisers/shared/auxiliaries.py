"""Folders of auxiliaries for anonymisers: classifiers of private and useful labels, word vectors, and word relations.

about.json                 data set, attributes, tasks, kinds, classes and class shares by label, ids of all texts used
<label>-<kind>/            a classifier (`models.classifier`)
vectors.npz                word vectors (`text.vectors`)
relations.parquet          columns a, b, relation; only if a file of relations was given
counter_fitted.npz         the vectors, counter-fitted to these relations; only with relations
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.file_names import listed
from epsilometer.core.randomness import Noise
from epsilometer.core.tables import Schema
from epsilometer.corpora import files
from epsilometer.mechanisms.anonymisers.shared.counter_fitting import counter_fit
from epsilometer.models.classifier import TRANSFORMER, Classifier, Examples, FineTuning
from epsilometer.models.classifiers.by_kind import load, train
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words

RELATIONS: Schema = {"a": pl.String, "b": pl.String, "relation": pl.String}
LEAST_COVERED = 0.5  # smallest share of word occurrences in the texts that have a vector


@dataclass(frozen=True)
class Plan:
    """The plan of a folder of auxiliaries.

    dataset:    name of the data set.
    attributes: labels to hide.
    tasks:      labels to preserve.
    kinds:      kinds of classifiers; every label gets one classifier of each kind.
    training:   training settings of transformers.
    """

    dataset: str
    attributes: Sequence[str]
    tasks: Sequence[str]
    kinds: Sequence[str]
    training: FineTuning
    seed: int = 0

    @property
    def labels(self) -> Sequence[str]:
        """All labels. Raises UserError for a duplicate label, and if there is no attribute."""
        labels = [*self.attributes, *self.tasks]
        if twice := next((label for label in labels if labels.count(label) > 1), None):
            raise UserError(
                f"label {twice!r} is listed twice; list it under attributes to hide it, or under tasks to preserve it",
                "EPS-M017",
            )
        if not self.attributes:
            raise UserError("auxiliaries have no attribute to hide; add a label under attributes", "EPS-M018")
        return labels


@dataclass(frozen=True)
class Auxiliaries:
    """The auxiliaries in a folder. Classifiers are loaded when they are first used.

    planned: the future content of about.json, for a folder that does not exist yet. Raises UserError for a folder
    without auxiliaries.
    """

    folder: Path
    planned: Mapping[str, Any] | None = None

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """The content of about.json."""
        if self.planned is not None:
            return self.planned
        try:
            about: dict[str, Any] = json.loads((self.folder / "about.json").read_bytes())
            if {"attributes", "tasks", "kinds", "classes", "shares", "texts"} <= {*about}:
                return about
        except (OSError, ValueError):
            pass
        raise UserError(
            f"{self.folder} does not contain auxiliaries (about.json is missing or damaged); set `resource` to a "
            "folder written by stage auxiliaries, data/auxiliaries/NAME",
            "EPS-M019",
        )

    @property
    def attributes(self) -> Sequence[str]:
        """The labels to hide."""
        return tuple(self.about["attributes"])

    @property
    def tasks(self) -> Sequence[str]:
        """The labels to preserve."""
        return tuple(self.about["tasks"])

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of classifiers; each label has one of each kind."""
        return tuple(self.about["kinds"])

    @property
    def seen(self) -> frozenset[str]:
        """The ids of all texts on which anything in the folder was trained or selected."""
        return frozenset(self.about["texts"])

    @cached_property
    def shares(self) -> Mapping[str, NDArray[np.float64]]:
        """The share of each class among the texts seen, in the order of the classes, by label."""
        return {
            label: np.array([shares[name] for name in self.about["classes"][label]])
            for label, shares in self.about["shares"].items()
        }

    @cached_property
    def classifiers(self) -> Mapping[str, Mapping[str, Classifier]]:
        """The classifiers by label and kind."""
        return {label: _Kinds(self, label) for label in (*self.attributes, *self.tasks)}

    @cached_property
    def vectors(self) -> WordVectors:
        """The word vectors."""
        return WordVectors.load(self.folder / "vectors.npz")

    @property
    def related(self) -> bool:
        """True if word relations are available."""
        if self.planned is not None:
            return self.planned["relations"] is not None
        return self.relations is not None

    @cached_property
    def relations(self) -> pl.DataFrame | None:
        """The word relations, schema `RELATIONS`; None if no file was given."""
        path = self.folder / "relations.parquet"
        return tables.read(path, RELATIONS) if path.exists() else None

    @cached_property
    def counter_fitted(self) -> WordVectors:
        """The vectors, counter-fitted to the relations. Raises UserError without relations."""
        path = self.folder / "counter_fitted.npz"
        if not path.exists():
            raise UserError(
                f"{self.folder} does not contain counter-fitted vectors, which need word relations; set `relations` to "
                "a file of relations in the entry under `auxiliaries`",
                "EPS-M020",
            )
        return WordVectors.load(path)

    def check(self, attributes: Sequence[str], tasks: Sequence[str], kinds: Sequence[str]) -> None:
        """Raise UserError for labels or kinds that these auxiliaries do not have."""
        for what, names, there in (
            ("attribute", attributes, self.attributes),
            ("task", tasks, self.tasks),
            ("kind", kinds, self.kinds),
        ):
            for name in names:
                if name not in there:
                    raise UserError(
                        f"{unknown(f'{what} of the auxiliaries in {self.folder}', name, there)}; add it to their "
                        "entry under `auxiliaries`, or omit it here",
                        "EPS-M021",
                    )


@runtime_checkable
class ReadsAuxiliaries(Protocol):
    """A mechanism that checks the labels and kinds of its auxiliaries, even planned ones, before it runs."""

    def check_auxiliaries(self, auxiliaries: Auxiliaries) -> None:
        """Raise UserError for settings that do not fit the auxiliaries."""
        ...


class _Kinds(Mapping[str, Classifier]):
    """The classifiers of one label by kind. Each is loaded when it is first used."""

    def __init__(self, auxiliaries: Auxiliaries, label: str) -> None:
        self._auxiliaries, self._label = auxiliaries, label
        self._loaded: dict[str, Classifier] = {}

    def __getitem__(self, kind: str) -> Classifier:
        if kind not in self._auxiliaries.kinds:
            raise KeyError(kind)
        if kind not in self._loaded:
            folder = self._auxiliaries.folder / f"{self._label}-{kind}"
            self._loaded[kind] = load(folder)
        return self._loaded[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._auxiliaries.kinds)

    def __len__(self) -> int:
        return len(self._auxiliaries.kinds)


def make(
    folder: Path,
    texts: pl.DataFrame,
    plan: Plan,
    vectors: WordVectors,
    *,
    held_out: pl.DataFrame | None = None,
    relations: pl.DataFrame | None = None,
) -> Auxiliaries:
    """Train auxiliaries on labelled texts, write their folder, and return them.

    texts:    columns id, text and one per label; null for texts without that label.
    held_out: texts in the same form. Transformers use these texts to select the epoch with the smallest loss; other
              kinds train on them, too.

    Raises UserError for labels that cannot be learnt, and for vectors that cover less than half of the words.
    """
    every = texts if held_out is None else pl.concat([texts, held_out])
    covered = check_covers(vectors, every["text"].to_list())
    parts: dict[tuple[str, str], tuple[Examples, Examples | None]] = {}
    for label in plan.labels:
        _check_classes(every, label)
        for kind in plan.kinds:
            apart = kind == TRANSFORMER and held_out is not None
            parts[label, kind] = _divided(texts, held_out, label) if apart else (_examples(every, label), None)
    for (label, kind), (examples, validation) in parts.items():
        stream = Noise.named(1, plan.seed, "auxiliaries", plan.dataset, label, kind)
        train(kind, examples, plan.training, stream, validation=validation).save(folder / f"{label}-{kind}")
    vectors.save(folder / "vectors.npz")
    if relations is not None:
        tables.write(relations, folder / "relations.parquet", RELATIONS)
        counter_fit(vectors, relations).save(folder / "counter_fitted.npz")
    labels = {label: every[label].drop_nulls().sort() for label in plan.labels}
    about = {
        **asdict(plan),
        "classes": {label: column.unique().sort().to_list() for label, column in labels.items()},
        "shares": {label: _shares(column) for label, column in labels.items()},
        "covered": covered,
        "texts": every["id"].sort().to_list(),
    }
    tables.write_json(about, folder / "about.json")
    return Auxiliaries(folder)


def read_relations(path: Path | str) -> pl.DataFrame:
    """Return the word relations in a user's file. Raises UserError if column a, b or relation is missing."""
    try:
        table = files.read(Path(path)).select(*RELATIONS).drop_nulls()
    except pl.exceptions.ColumnNotFoundError:
        raise UserError(
            f"{path} must have the columns {', '.join(RELATIONS)}: two words and their relation", "EPS-M022"
        ) from None
    return table.select(pl.all().cast(pl.String)).unique(maintain_order=True)


def check_covers(vectors: WordVectors, texts: Sequence[str]) -> float:
    """Return the share of word occurrences in the texts that have a vector.

    Raises UserError if the share is below LEAST_COVERED.
    """
    vocabulary = {*vectors.words}
    occurrences = [word in vocabulary for text in texts for word in words(text)]
    covered = float(np.mean(occurrences)) if occurrences else 0.0
    if covered < LEAST_COVERED:
        raise UserError(
            f"the word vectors cover {covered:.0%} of the words of the texts, fewer than the {LEAST_COVERED:.0%} "
            "needed to choose replacements; give lower-case vectors of the texts' language",
            "EPS-M023",
        )
    return covered


def _check_classes(table: pl.DataFrame, label: str) -> None:
    if label not in table.columns:
        raise unknown("label", label, table.columns)
    if (classes := table[label].drop_nulls().n_unique()) < 2:
        raise UserError(
            f"label {label!r} has {classes} class in the auxiliaries' texts, fewer than 2; give more texts, or omit "
            "the label",
            "EPS-M024",
        )


def _divided(texts: pl.DataFrame, held_out: pl.DataFrame | None, label: str) -> tuple[Examples, Examples]:
    """Return the examples to train on, and the examples that select the epoch."""
    learned, chosen_by = _examples(texts, label), _examples(held_out, label)
    if not chosen_by or (strange := {*chosen_by.labels} - {*learned.labels}):
        what = f"all texts of {listed(sorted(strange), 'class')} are" if chosen_by else "no text is"
        raise UserError(
            f"label {label!r}: {what} held out of the auxiliaries' part, so epochs cannot be compared; give more texts "
            "of every class, in smaller groups, or train for 1 epoch",
            "EPS-M025",
        )
    return learned, chosen_by


def _examples(table: pl.DataFrame | None, label: str) -> Examples:
    assert table is not None
    rows = table.filter(pl.col(label).is_not_null())
    return Examples(rows["text"].to_list(), rows[label].to_list())


def _shares(labels: pl.Series) -> dict[str, float]:
    counts = labels.value_counts().sort(labels.name)
    return {name: count / len(labels) for name, count in counts.iter_rows()}
