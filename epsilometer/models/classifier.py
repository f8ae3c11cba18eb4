"""Interface of the three kinds of text classifier.

transformer: a pretrained model, fine-tuned with a new head (`classifiers/transformer.py`).
linear:      logistic regression on TF-IDF of words (`classifiers/linear.py`).
encoder:     logistic regression on the frozen sentence encoder's vectors (`classifiers/encoder.py`).

A text is a string, or a pair of strings that are read together (`classifiers/pairs.py`). A text's probabilities do not
depend on the other texts in a call: logits are rounded to multiples of 1/1024, and networks get batches of fixed
shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.core.errors import UserError

TRANSFORMER, LINEAR, ENCODER = "transformer", "linear", "encoder"
KINDS = (TRANSFORMER, LINEAR, ENCODER)
_ABOUT = "classifier.json"

Text = str | tuple[str, str]


@dataclass(frozen=True)
class Examples:
    """Labelled texts.

    texts:  n texts, or n pairs of texts.
    labels: their n labels.
    groups: [n], the group of each example, such as its author, or the original of a rewrite; None: unknown. Examples of
            one group are not independent, so all of them go to training, or all of them to validation.
    """

    texts: Sequence[Text]
    labels: Sequence[str]
    groups: Sequence[str] | None = None

    def take(self, rows: NDArray[np.integer]) -> Examples:
        """Return the examples in these rows [m], in their order."""
        groups = None if self.groups is None else [self.groups[i] for i in rows]
        return Examples([self.texts[i] for i in rows], [self.labels[i] for i in rows], groups)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class FineTuning:
    """Training settings of a transformer; other kinds of classifier ignore them.

    model:     a folder, a pin or a hub id.
    rate:      peak learning rate.
    batch:     texts per step.
    longest:   most word pieces per text; longer texts are truncated.
    precision: "float32", "bfloat16" or "auto"; the choice can change results.
    epochs:    passes over the examples. After more than one, the weights with the smallest loss on validation texts
               are restored.
    decay:     weight decay; 0 makes AdamW equal to Adam (Kingma and Ba).
    layers:    number of last layers to train, in addition to pooling and head; None: all weights are trained.
    """

    model: str
    rate: float = 2e-5
    batch: int = 32
    longest: int = 256
    precision: str = "float32"
    epochs: int = 1
    decay: float = 0.01
    layers: int | None = None


class Classifier(Protocol):
    """A trained classifier of one label."""

    @property
    def classes(self) -> Sequence[str]:
        """The classes, sorted by name, in the order of the columns of `probabilities`."""
        ...

    @property
    def kind(self) -> str:
        """One of KINDS."""
        ...

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return [n, c]: each text's probability of each class. Equal texts are computed once."""
        ...

    def save(self, folder: Path) -> None:
        """Write the files that `load` reads."""
        ...


@runtime_checkable
class HasWindow(Protocol):
    """A classifier that truncates long texts."""

    def cuts(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return [n]: True for each text that is truncated."""
        ...


def read_about(folder: Path) -> dict[str, Any]:
    """Return the description in a classifier's folder: `kind`, `classes` and settings. Raises UserError if missing."""
    path = folder / _ABOUT
    try:
        about: dict[str, Any] = json.loads(path.read_bytes())
        if about["kind"] in KINDS and about["classes"] == sorted({*about["classes"]}):
            return about
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(
        f"{folder} does not contain a classifier ({_ABOUT} is missing or damaged); train it again", "EPS-N017"
    )


def write_about(folder: Path, kind: str, classes: Sequence[str], rest: Mapping[str, Any]) -> None:
    """Write the description that `read_about` reads."""
    tables.write_json({"kind": kind, "classes": list(classes), **rest}, folder / _ABOUT)


def each_once(
    texts: Sequence[Text], compute: Callable[[Sequence[Text]], NDArray[np.float64]], classes: int
) -> NDArray[np.float64]:
    """Return [n, c]: the results of `compute`, which gets each distinct text once."""
    numbers: dict[Text, int] = {}
    places = [numbers.setdefault(text, len(numbers)) for text in texts]
    return compute(list(numbers))[places] if places else np.empty((0, classes))
