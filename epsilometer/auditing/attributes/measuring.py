"""All rows about the releases of one part of a data set: the victims' predictions and the attackers' inferences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from epsilometer.auditing.attributes.attackers import (
    DETECTOR,
    LEARNERS,
    REWRITTEN,
    Inferred,
    InferringModel,
    Learned,
    Learners,
    ask,
    detect,
    infer,
)
from epsilometer.auditing.attributes.attribute_loss import NOTHING_CLAIMED, Claimed, rows
from epsilometer.auditing.attributes.released import Released
from epsilometer.auditing.attributes.success import Edits, by_length, changes, read, shares
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Classifier, Examples
from epsilometer.text.words import words

Train = Callable[[str, int, Examples], Classifier]
"""Trains a classifier of a kind, with a seed, on examples."""


@dataclass(frozen=True)
class Attacking:
    """The attackers of a release, and how they are judged.

    attackers: names from LEARNERS and DETECTOR. authors: numbers of texts by one author that are read together. models:
    attacking language models, by their names in tables. alpha: the error of each interval, and the error of all
    verdicts of one label together. seed: the seed of all random choices.
    """

    attackers: Sequence[str] = (*LEARNERS, DETECTOR)
    authors: Sequence[int] = Learners.authors
    models: Mapping[str, InferringModel] = field(default_factory=dict)
    alpha: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.attackers:
            if name not in (*LEARNERS, DETECTOR):
                raise unknown("attacker", name, (*LEARNERS, DETECTOR))
        if not all(size >= 1 for size in self.authors):
            raise UserError(
                f"authors must be whole numbers >= 1, got {list(self.authors)}; each is the number of one author's "
                "texts that are read together",
                "EPS-S020",
            )

    def noise(self, *name: str) -> Noise:
        """Return a stream whose name does not contain the mechanism, so all mechanisms have the same trials."""
        return Noise.named(1, self.seed, "attribute", *name)


def attacker_rows(
    training: Released,
    test: Released,
    label: str,
    static: Sequence[Learned],
    *,
    train: Train,
    claimed: Callable[[Released], Claimed] = lambda test: NOTHING_CLAIMED,
    settings: Attacking,
) -> list[dict[str, Any]]:
    """Return the rows of all attackers of one label, with the columns of `tables.ATTACKERS` from `label` on.

    static: a classifier per kind and seed, trained on the original training texts. claimed: the claim on the releases
    of the test texts that have the label.
    """
    training, test = training.with_labels(label), test.with_labels(label)
    request = Learners(settings.attackers, settings.authors)
    inferred: list[Inferred] = []
    for learned in static:
        learn = partial(train, learned.classifier.kind, learned.seed)
        noise = settings.noise("authors", label)
        inferred += infer(training, test, label, learned, learn=learn, request=request, noise=noise)
    for name, model in settings.models.items():
        inferred.append(ask(model, name, test, label, classes=static[0].classifier.classes))
    noise = settings.noise("trials", label)
    own = rows(inferred, test.groups, claimed(test), alpha=settings.alpha, noise=noise)
    return [{"label": label, **row} for row in own]


def detector_rows(
    training: Released, test: Released, kinds: Sequence[tuple[str, int]], *, train: Train, settings: Attacking
) -> list[dict[str, Any]]:
    """Return the rows of a detector per kind and seed, like `attacker_rows`; none unless the detector is requested."""
    if DETECTOR not in settings.attackers:
        return []
    coins = settings.noise("detector")
    detectors = [detect(training, test, partial(train, kind, seed), seed=seed, noise=coins) for kind, seed in kinds]
    own = rows(detectors, test.groups, NOTHING_CLAIMED, alpha=settings.alpha, noise=settings.noise("trials"))
    return [{"label": REWRITTEN, **row} for row in own]


def victim_rows(
    test: Released,
    attributes: Sequence[str],
    task: str | None,
    victims: Mapping[str, Sequence[Learned]],
    *,
    edits: Edits,
    alpha: float,
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield, per kind and seed of victim, a row of `tables.ANONYMITY` from `attribute` on, and rows of `BY_LENGTH`.

    attributes: the attribute, or several that are hidden together. task: the label to preserve, or None. victims: for
    each of these attributes and the task, a classifier per kind and seed, in the same order. edits: the changes to all
    test texts.
    """
    labels = attributes if task is None else (*attributes, task)
    rows = test.rows_with(*labels)
    labelled, of_labelled = test.take(rows), edits.take(rows)
    lengths = np.array([len(words(text)) for text in labelled.originals])
    for of_labels in zip(*(victims[label] for label in labels), strict=True):
        (kind, seed), *others = dict.fromkeys((learned.classifier.kind, learned.seed) for learned in of_labels)
        if others:
            raise ValueError("the victims of all labels must be of the same kinds and seeds, in the same order")
        of_label = {label: learned.classifier for label, learned in zip(labels, of_labels, strict=True)}
        seen = read(labelled, attributes, task, of_label)
        named = {"attribute": " and ".join(attributes), "task": task, "victim": kind, "seed": seed}
        lines = [named | row for row in by_length(seen, lengths, alpha)]
        yield named | shares(seen, alpha) | changes(labelled, seen, of_labelled), lines
