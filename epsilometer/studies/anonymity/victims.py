"""The classifiers of a data set's labels, which are victims, and the attackers that are trained as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from epsilometer.core.outcomes import Outcomes
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import GROUP
from epsilometer.models.classifier import TRANSFORMER, Classifier, Examples, FineTuning
from epsilometer.models.classifiers.by_kind import load, train
from epsilometer.studies.anonymity.attackers import Learned
from epsilometer.studies.anonymity.labelled import TRAIN, examples, labelled, numbered
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import FineTuning as FineTuningSettings
from epsilometer.studies.anonymity.parts import parted
from epsilometer.studies.anonymity.released import Released
from epsilometer.studies.anonymity.tables import classifier_path

TASK, ATTRIBUTE, NUMBER = "task", "attribute", "number"
_TENTH = 10


def fine_tuning(params: AnonymityParams, training: FineTuningSettings) -> FineTuning:
    """The settings of training."""
    return FineTuning(**training.model_dump(exclude={"model", "seeds"}), model=located(params, training.model))


def located(params: AnonymityParams, model: str) -> str:
    """A model by id or folder; one that lies in the project is located from the run's folder."""
    inside = Path(params.path(model))
    return str(inside) if inside.exists() else model


def roles(params: AnonymityParams, dataset: str) -> Iterator[tuple[str, str]]:
    """The labels of a data set that are classified, each with its role."""
    labels = params.classification.labels[dataset]
    yield from ((label, TASK) for label in labels.tasks)
    yield from ((label, ATTRIBUTE) for label in labels.attributes)


def chosen(params: AnonymityParams, dataset: str, label: str) -> pl.DataFrame:
    """The rows that classifiers or regressions of this label learn from, of the victims' part, and are tested on."""
    settings = params.classification
    table = parted(params, dataset)
    choose = numbered if label in settings.labels[dataset].numbers else labelled
    return choose(table, label, settings.texts.sizes, params.audit.seed, least=settings.training.batch)


def seeds(params: AnonymityParams, kind: str) -> int:
    """How many classifiers of a kind there are of each label: those that draw nothing at random are trained once."""
    return params.classification.training.seeds if kind == TRANSFORMER else 1


def stream(params: AnonymityParams, dataset: str, label: str, seed: int) -> Noise:
    """The stream of a classifier's training."""
    return Noise.named(1, params.audit.seed, "classifier", dataset, label, seed)


def victims(params: AnonymityParams, dataset: str, label: str) -> list[Learned]:
    """The classifiers of a label that stage `classifiers` keeps, a kind and seed each."""
    own = examples(chosen(params, dataset, label), label, TRAIN, sides=params.datasets[dataset].sides)
    return [
        Learned(load(classifier_path(dataset, label, kind, seed)), own, seed)
        for kind in params.classification.kinds
        for seed in range(min(seeds(params, kind), params.attackers.seeds))
    ]


def attackers_of(params: AnonymityParams) -> list[tuple[str, int]]:
    """The kind and seed of each victim that attacks."""
    kinds = params.attackers.kinds or params.classification.kinds
    return [(kind, seed) for kind in kinds for seed in range(min(seeds(params, kind), params.attackers.seeds))]


def attacker(params: AnonymityParams, dataset: str, label: str, kind: str, seed: int, examples: Examples) -> Classifier:
    """An attacker, trained as the victims are; of several epochs the best is chosen by a tenth of its examples."""
    settings, validation = fine_tuning(params, params.classification.training), None
    if settings.epochs > 1:
        rows = [[i for i in range(len(examples)) if (i % _TENTH == 0) is held] for held in (True, False)]
        validation, examples = (
            Examples([examples.texts[i] for i in part], [examples.labels[i] for i in part]) for part in rows
        )
    return train(kind, examples, settings, stream(params, dataset, label, seed), validation=validation)


def released(params: AnonymityParams, dataset: str, table: pl.DataFrame) -> Released:
    """Rows of a prepared table beside what is released of them. table: also the column `rewrite`, and outcomes."""
    labels = {label: table[label].to_list() for label, _ in roles(params, dataset)}
    groups = table[GROUP].cast(pl.String).to_list() if params.datasets[dataset].group else None
    texts = table["text"].to_list()
    return Released(texts, table["rewrite"].to_list(), labels, groups=groups, outcomes=Outcomes.of(table))
