"""The victims, which are classifiers of a data set's labels, and the attackers, which are trained in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.attributes.attackers import Learned
from epsilometer.auditing.attributes.released import Released
from epsilometer.core.errors import UserError
from epsilometer.core.outcomes import Outcomes
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP, groups, held_out
from epsilometer.models.classifier import TRANSFORMER, Classifier, Examples, FineTuning
from epsilometer.models.classifiers.by_kind import load, train
from epsilometer.models.classifiers.pairs import single
from epsilometer.studies.anonymity.labelled import TRAIN, examples, labelled, numbered
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import FineTuning as FineTuningSettings
from epsilometer.studies.anonymity.parts import parted
from epsilometer.studies.anonymity.tables import classifier_path

TASK, ATTRIBUTE, NUMBER = "task", "attribute", "number"


def fine_tuning(params: AnonymityParams, training: FineTuningSettings) -> FineTuning:
    """Return the settings of a training in the form that `models` takes, with the path of the model."""
    return FineTuning(**training.model_dump(exclude={"model", "seeds"}), model=located(params, training.model))


def located(params: AnonymityParams, model: str) -> str:
    """Return the path of a model folder in the project, or `model` unchanged if there is no such folder."""
    inside = Path(params.path(model))
    return str(inside) if inside.exists() else model


def roles(params: AnonymityParams, dataset: str) -> Iterator[tuple[str, str]]:
    """Yield the labels of a data set that classifiers learn, each with its role: TASK or ATTRIBUTE."""
    labels = params.classification.labels[dataset]
    yield from ((label, TASK) for label in labels.tasks)
    yield from ((label, ATTRIBUTE) for label in labels.attributes)


def chosen(params: AnonymityParams, dataset: str, label: str) -> pl.DataFrame:
    """Return the rows that classifiers or regressions of this label are trained and tested on.

    The training rows are in the victims' part.
    """
    settings = params.classification
    table = parted(params, dataset)
    choose = numbered if label in settings.labels[dataset].numbers else labelled
    return choose(table, label, settings.texts.sizes, params.audit.seed, least=settings.training.batch)


def seeds(params: AnonymityParams, kind: str) -> int:
    """Return the number of classifiers of a kind per label; kinds whose training is not random are trained once."""
    return params.classification.training.seeds if kind == TRANSFORMER else 1


def stream(params: AnonymityParams, dataset: str, label: str, seed: int) -> Noise:
    """Return the random stream of a classifier's training."""
    return Noise.named(1, params.audit.seed, "classifier", dataset, label, seed)


def victims(params: AnonymityParams, dataset: str, label: str) -> list[Learned]:
    """Return the classifiers of a label that stage `classifiers` saved: of every kind, up to `attackers.seeds`."""
    own = examples(chosen(params, dataset, label), label, TRAIN, sides=params.datasets[dataset].sides)
    return [
        Learned(load(classifier_path(dataset, label, kind, seed)), own, seed)
        for kind in params.classification.kinds
        for seed in range(min(seeds(params, kind), params.attackers.seeds))
    ]


def attackers_of(params: AnonymityParams) -> list[tuple[str, int]]:
    """Return the kind and seed of each victim that also serves as an attacker."""
    kinds = params.attackers.kinds or params.classification.kinds
    return [(kind, seed) for kind in kinds for seed in range(min(seeds(params, kind), params.attackers.seeds))]


def trained(params: AnonymityParams, dataset: str, label: str, kind: str, seed: int, examples: Examples) -> Classifier:
    """Train a victim, or an attacker in the same way. With several epochs, held-out examples choose the best epoch."""
    settings, validation = fine_tuning(params, params.classification.training), None
    if chooses_epochs(params, kind):
        examples, validation = divided(params, label, examples)
    return train(kind, examples, settings, stream(params, dataset, label, seed), validation=validation)


def chooses_epochs(params: AnonymityParams, kind: str) -> bool:
    """Return True if classifiers of a kind train for several epochs and hold out texts to choose the best epoch."""
    return kind == TRANSFORMER and params.classification.training.epochs > 1


def check_divided(params: AnonymityParams, label: str, examples: Examples) -> None:
    """Raise UserError as `divided` does, if any classifier of these examples holds out texts."""
    if any(chooses_epochs(params, kind) for kind in params.classification.kinds):
        divided(params, label, examples)


def divided(params: AnonymityParams, label: str, examples: Examples) -> tuple[Examples, Examples]:
    """Divide examples into those to train on and held-out ones, whose loss chooses the best epoch.

    About a tenth of each class is held out, in whole groups. Without groups, equal texts stay together. Raises
    UserError if nothing can be held out, or if fewer examples than a batch are left.
    """
    training = params.classification.training
    if examples.groups is None:
        of = groups(pl.DataFrame({"text": [" ".join(single([text])) for text in examples.texts]}))
    else:
        number_of = {name: number for number, name in enumerate(dict.fromkeys(examples.groups))}
        of = np.array([number_of[name] for name in examples.groups])
    held = held_out(of, [examples.labels], params.audit.seed)
    learned, chosen_by = (examples.take(np.flatnonzero(rows)) for rows in (~held, held))
    if not chosen_by or len(learned) < training.batch:
        raise UserError(
            f"classification.training.epochs is {training.epochs}, so about a tenth of the texts is held out in whole "
            f"groups; of {len(examples)} texts with the label {label!r} this leaves {len(learned)} to train on in "
            f"batches of {training.batch}, and {len(chosen_by)} held out; give more texts, or train for 1 epoch",
            "EPS-S048",
        )
    return learned, chosen_by


def released(params: AnonymityParams, dataset: str, table: pl.DataFrame) -> Released:
    """Return the texts of a prepared table with their labels, releases and outcomes.

    table: rows of the prepared table, with the column `rewrite` and, if there are any, outcomes.
    """
    labels = {label: table[label].to_list() for label, _ in roles(params, dataset)}
    authors = table[GROUP].cast(pl.String).to_list() if params.datasets[dataset].group else None
    texts = table["text"].to_list()
    return Released(texts, table["rewrite"].to_list(), labels, groups=authors, outcomes=Outcomes.of(table))
