"""Training and scoring of classifiers and regressions of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.worth.intervals import f1_interval
from epsilometer.auditing.worth.scoring import number_scores, scores
from epsilometer.models.classifier import TRANSFORMER, Examples, Text
from epsilometer.models.classifiers import regression
from epsilometer.models.classifiers.by_kind import train
from epsilometer.models.classifiers.transformer import Transformer
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples, numbers_of
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.tables import classifier_path
from epsilometer.studies.anonymity.victims import NUMBER, TASK, fine_tuning, seeds, stream, trained


def kinds(params: AnonymityParams, role: str) -> list[str]:
    """Return the kinds of classifier to train for a label of this role. Transformers do not learn numbers."""
    return [kind for kind in params.classification.kinds if role != NUMBER or kind != TRANSFORMER]


Guess = Callable[[Sequence[Text]], NDArray[Any]]


def learnt(params: AnonymityParams, named: Mapping[str, Any], examples: Examples, seed: int) -> Guess:
    """Train a classifier or a regression, and return a function from n texts to its guesses [n].

    A guess is the index of a class, or a number for a regression.

    named: data set, label, role and kind. Training has the same random stream for all mechanisms, so classifiers differ
    only by their texts.
    """
    if named["role"] == NUMBER:
        return regression.fit(named["kind"], examples.texts, numbers_of(examples.labels))
    stream_of = stream(params, named["dataset"], named["label"], seed)
    classifier = train(named["kind"], examples, fine_tuning(params, params.classification.training), stream_of)
    return partial(guesses, classifier)


def train_all(
    params: AnonymityParams, dataset: str, label: str, role: str, *, own: pl.DataFrame
) -> dict[str, list[NDArray[np.int64]]]:
    """Train the classifiers of one label and save them.

    own: the label's training and test texts. Returns the guesses on the test texts by kind, an array [n] per seed.
    """
    sides = params.datasets[dataset].sides
    training, test = (examples(own, label, split, sides=sides) for split in (TRAIN, TEST))
    tried: dict[str, list[NDArray[np.int64]]] = {}
    for kind in params.classification.kinds:
        for seed in range(seeds(params, kind)):
            classifier = trained(params, dataset, label, kind, seed=seed, examples=training)
            folder = classifier_path(dataset, label, kind, seed)
            # Saving rounds a transformer's weights. Task classifiers are scored before saving, as in `downstream`,
            # which saves none. Attackers are scored after saving, because attacks use the rounded weights.
            before = guesses(classifier, test.texts) if role == TASK else None
            classifier.save(folder)
            tried.setdefault(kind, []).append(guesses(classifier, test.texts) if before is None else before)
    return tried


def guesses(classifier: Any, texts: Sequence[Text]) -> NDArray[np.int64]:
    """Return the index [n] of the most likely class of each text."""
    if isinstance(classifier, Transformer):
        return classifier.predict(texts)
    likeliest: NDArray[np.int64] = classifier.probabilities(texts).argmax(axis=1)
    return likeliest


@dataclass(frozen=True)
class Tried:
    """The guesses of one seed's classifier or regression on the test texts.

    guesses: [n], indices of classes; for a regression, the predicted numbers.
    empty:   the number of empty texts among the training and test texts.
    """

    guesses: NDArray[Any]
    empty: int


def rows(
    named: Mapping[str, Any], train: Examples, test: Examples, tried: Sequence[Tried], params: AnonymityParams
) -> Iterator[dict[str, Any]]:
    """Yield a row of `DOWNSTREAM` per seed, with the seed's scores.

    Rows of a classifier also have an interval of the mean F1 over seeds. The interval treats the test texts, or their
    groups if there are any, as a random sample.
    """
    sizes: dict[str, Any] = {"train": len(train), "test": len(test)}
    if named["role"] == NUMBER:
        numbers = numbers_of(test.labels)
        for seed, run in enumerate(tried):
            yield {**named, "seed": seed, **sizes, "empty": run.empty, **number_scores(numbers, run.guesses).row()}
        return
    classes = sorted({*train.labels})
    truth = np.array([classes.index(name) for name in test.labels])
    groups, guesses = test.groups or range(len(test)), np.stack([run.guesses for run in tried])
    low, high = f1_interval(truth, guesses, len(classes), params.audit.alpha, sources=groups)
    sizes |= {"low": low, "high": high}
    for seed, run in enumerate(tried):
        yield {**named, "seed": seed, **sizes, "empty": run.empty, **scores(truth, run.guesses, classes).row()}
