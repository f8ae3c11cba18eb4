"""The texts of one part of a data set, their releases, and checks that two parts share no text or group."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.errors import UserError, by_number
from epsilometer.core.file_names import listed
from epsilometer.core.outcomes import Outcomes
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import groups
from epsilometer.models.classifier import Examples
from epsilometer.text.words import words


@dataclass(frozen=True)
class Released:
    """n original texts and their releases.

    labels: by name, n values each, None for a text without the label. groups: [n], names of authors or pairs, equal for
    dependent texts; None if all texts are independent. outcomes: an anonymiser's outcome on each text, or None.
    """

    originals: Sequence[str]
    rewrites: Sequence[str]
    labels: Mapping[str, Sequence[str | None]]
    groups: Sequence[str] | None = None
    outcomes: Outcomes | None = None

    def __len__(self) -> int:
        return len(self.originals)

    def take(self, rows: NDArray[np.integer]) -> Released:
        """Return the texts of these rows [m], in their order."""
        return Released(
            [self.originals[i] for i in rows],
            [self.rewrites[i] for i in rows],
            {name: [values[i] for i in rows] for name, values in self.labels.items()},
            groups=None if self.groups is None else [self.groups[i] for i in rows],
            outcomes=None if self.outcomes is None else self.outcomes.take(rows),
        )

    def rows_with(self, *names: str) -> NDArray[np.int64]:
        """Return [m]: the rows that have all of these labels."""
        missing = np.array([[value is None for value in self.labels[name]] for name in names], bool).any(axis=0)
        return np.flatnonzero(~missing)

    def with_labels(self, *names: str) -> Released:
        """Return the texts that have all of these labels."""
        return self.take(self.rows_with(*names))

    def clean(self, label: str) -> Examples:
        """Return the original texts, with a label that all of them have."""
        return Examples(self.originals, self.classes_of(label))

    def rewritten(self, label: str) -> Examples:
        """Return the releases of the texts, with a label that all of them have."""
        return Examples(self.rewrites, self.classes_of(label))

    def classes_of(self, label: str) -> list[str]:
        """Return the label of each text, if all texts have it."""
        return [value for value in self.labels[label] if value is not None]

    @property
    def unchanged(self) -> NDArray[np.bool_]:
        """True for a text that is released unchanged [n]."""
        return np.array([a == b for a, b in zip(self.originals, self.rewrites, strict=True)], bool)


def numbered(labels: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    """Return [n]: the labels as indices of classes. Raises UserError for a label that is not among the classes."""
    number_of = {name: number for number, name in enumerate(classes)}
    if missing := sorted({*labels} - {*number_of}):
        raise UserError(
            f"the test texts have {listed(missing, 'class')}, but the training texts have only "
            f"{listed(number_of, 'class')}; every class must occur in every part of the data",
            "EPS-S039",
        )
    return np.array([number_of[label] for label in labels], np.int64)


def check_classes(test: Released, label: str, classes: Sequence[str]) -> None:
    """Raise UserError if the test texts' classes of the label are not exactly `classes`, or if a label is empty."""
    present = {*test.classes_of(label)}
    if unlabelled := [i for i, name in enumerate(test.classes_of(label), 1) if not name.strip()]:
        raise UserError(
            f"label {label!r} is empty for {by_number('text', unlabelled)} of {len(test):,} test texts; name their "
            "class, or leave them out",
            "EPS-S040",
        )
    numbered(sorted(present), classes)
    if missing := sorted({*classes} - present):
        raise UserError(
            f"label {label!r}: the test texts have none of {listed(missing, 'class')}; every class must occur "
            "in every part of the data",
            "EPS-S041",
        )


def check_apart(training: Released, test: Released) -> None:
    """Raise UserError if a text (ignoring case, layout and punctuation) or a group is in both parts."""
    for what, own, other in (
        ("texts", map(_compared, training.originals), map(_compared, test.originals)),
        ("groups", training.groups or (), test.groups or ()),
    ):
        if shared := len({*own} & {*other}):
            raise UserError(
                f"{shared} {what} are in both the test part and the training part, so the results would not hold for "
                "other texts; leave them out of one part",
                "EPS-S042",
            )


def check_unseen(test_ids: Sequence[str], seen: Sequence[str], who: str) -> None:
    """Raise UserError if the classifier `who` learned from test texts. seen: ids of the texts that it learned from."""
    if shared := len({*test_ids} & {*seen}):
        raise UserError(
            f"{who} was trained on {shared} of the {len({*test_ids})} test texts, so its figures would not hold for "
            "other texts; train it on another part of the data",
            "EPS-S043",
        )


def layout_free(text: str) -> str:
    """Return the text with single spaces and composed characters (NFC), as `corpora.reading.prepare` compares it."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _compared(text: str) -> str:
    """Return the text's words, as `corpora.parts.groups` compares texts; the layout-free text if it has no words."""
    return " ".join(words(text)) or layout_free(text)


def lone_apart(groups: Sequence[str | None], part: str) -> list[str]:
    """Return [n]: the groups. A row without a group gets a group of its own, which occurs in no other part."""
    return [f"\0{part} {i}" if name is None else name for i, name in enumerate(groups)]  # no name begins like this


def halves(texts: Released, noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the rows in two halves that share no text (ignoring case, layout, punctuation) and no group.

    Rows that share a text or a group, directly or through other rows, are in the same half (`corpora.parts.groups`).
    noise: one stream.
    """
    keys = texts.groups or [layout_free(text) for text in texts.originals]
    columns = {"text": list(texts.originals), "key": list(keys)}
    together = groups(pl.DataFrame(columns), ["key"])
    smallest: dict[int, str] = {}
    for number, key in zip(together.tolist(), keys, strict=True):
        smallest[number] = min(key, smallest.get(number, key))
    # Groups are numbered by their smallest names, so the draw does not depend on the order of rows.
    _, group = np.unique(np.array([smallest[number] for number in together.tolist()]), return_inverse=True)
    chosen = noise.uniforms(group.max() + 1)[0].argsort().argsort() < (group.max() + 1) / 2
    return np.flatnonzero(chosen[group]), np.flatnonzero(~chosen[group])
