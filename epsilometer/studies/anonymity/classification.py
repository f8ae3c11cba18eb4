"""Classifiers and regressions of texts, and the rows about them."""

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
    """Return the kinds that are trained for a label; for a number, regressions only."""
    return [kind for kind in params.classification.kinds if role != NUMBER or kind != TRANSFORMER]


Guess = Callable[[Sequence[Text]], NDArray[Any]]


def learnt(params: AnonymityParams, named: Mapping[str, Any], examples: Examples, seed: int) -> Guess:
    """Return a function trained on examples: of texts it returns [n] numbers of classes, or numbers.

    named: data set, label, role and kind. All mechanisms share one stream, so classifiers differ only by their texts.
    """
    if named["role"] == NUMBER:
        return regression.fit(named["kind"], examples.texts, numbers_of(examples.labels))
    stream_of = stream(params, named["dataset"], named["label"], seed)
    classifier = train(named["kind"], examples, fine_tuning(params, params.classification.training), stream_of)
    return partial(guesses, classifier)


def train_all(
    params: AnonymityParams, dataset: str, label: str, role: str, *, own: pl.DataFrame
) -> dict[str, list[NDArray[np.int64]]]:
    """Train and keep the classifiers of one label; returns their guesses of test texts by kind, an array per seed."""
    sides = params.datasets[dataset].sides
    training, test = (examples(own, label, split, sides=sides) for split in (TRAIN, TEST))
    tried: dict[str, list[NDArray[np.int64]]] = {}
    for kind in params.classification.kinds:
        for seed in range(seeds(params, kind)):
            classifier = trained(params, dataset, label, kind, seed=seed, examples=training)
            folder = classifier_path(dataset, label, kind, seed)
            # Saving rounds a transformer's weights. Attackers are scored as they are kept, tasks before saving, as
            # `downstream` scores the classifiers that it trains.
            before = guesses(classifier, test.texts) if role == TASK else None
            classifier.save(folder)
            tried.setdefault(kind, []).append(guesses(classifier, test.texts) if before is None else before)
    return tried


def guesses(classifier: Any, texts: Sequence[Text]) -> NDArray[np.int64]:
    """Return [n]: the number of the most likely class of each text."""
    if isinstance(classifier, Transformer):
        return classifier.predict(texts)
    likeliest: NDArray[np.int64] = classifier.probabilities(texts).argmax(axis=1)
    return likeliest


@dataclass(frozen=True)
class Tried:
    """The guesses of one seed's classifier on the test texts, as numbers of classes; for a regression, the numbers.

    empty: number of empty rewrites among its training and test texts.
    """

    guesses: NDArray[Any]
    empty: int


def rows(
    named: Mapping[str, Any], train: Examples, test: Examples, tried: Sequence[Tried], params: AnonymityParams
) -> Iterator[dict[str, Any]]:
    """Rows of `DOWNSTREAM`, one per seed: its own scores and, for classes, the interval of the mean over seeds.

    The interval is over test texts, by groups if they have any.
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
