"""The parts of classification: which texts of a data set, trained how, and where clean classifiers lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.transformer import Transformer, fine_tune
from epsilometer.project.params import Params
from epsilometer.project.paths import prepared
from epsilometer.utility.downstream import scores
from epsilometer.utility.intervals import f1_interval
from epsilometer.utility.labelled import labelled

TASK, ATTRIBUTE = "task", "attribute"


def fine_tuning(params: Params) -> FineTuning:
    """The settings of training; a model that lies in the project is located from the run's folder."""
    training = params.classification.training
    inside = Path(params.path(training.model))
    return FineTuning(
        str(inside) if inside.exists() else training.model,
        training.rate,
        training.batch,
        training.longest,
        precision=training.precision,
        device=training.device,
    )


def roles(params: Params, dataset: str) -> Iterator[tuple[str, str]]:
    """The labels of a data set that are classified, each with its role."""
    labels = params.classification.labels[dataset]
    yield from ((label, TASK) for label in labels.tasks)
    yield from ((label, ATTRIBUTE) for label in labels.attributes)


def chosen(params: Params, dataset: str, label: str) -> pl.DataFrame:
    """The rows that classifiers of this label are trained and tested on."""
    settings = params.classification
    counts = settings.texts.model_dump()
    return labelled(prepared(dataset), label, counts, params.audit.seed, least=settings.training.batch)


def trained(params: Params, dataset: str, label: str, examples: Examples, classes: list[str], seed: int) -> Transformer:
    """A trained classifier. All mechanisms share one stream, so that classifiers differ by their texts alone."""
    stream = Noise.named(1, params.audit.seed, "classifier", dataset, label, seed)
    return fine_tune(examples, classes, fine_tuning(params), stream)


def clean_classifier(dataset: str, label: str, seed: int) -> Path:
    """The folder of an attribute's classifier that was trained on clean texts."""
    return Path(f"data/classifiers/{dataset}-{label}-{seed}")


@dataclass(frozen=True)
class Tried:
    """The guesses of one seed's classifier on the test texts, as numbers of classes.

    empty: rewrites without a character among what it was trained and tested on.
    """

    guesses: NDArray[np.integer]
    empty: int


def rows(
    named: Mapping[str, Any], train: Examples, test: Examples, tried: Sequence[Tried], params: Params
) -> Iterator[dict[str, Any]]:
    """Rows of `DOWNSTREAM`, one a seed: its own scores, and the interval of the mean over seeds."""
    classes = sorted({*train.labels})
    truth = np.array([classes.index(name) for name in test.labels])
    low, high = f1_interval(truth, np.stack([one.guesses for one in tried]), len(classes), params.audit.alpha)
    sizes = {"train": len(train), "test": len(test), "low": low, "high": high}
    for seed, one in enumerate(tried):
        yield {**named, "seed": seed, **sizes, "empty": one.empty, **scores(truth, one.guesses, classes).row()}
