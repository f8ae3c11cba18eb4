"""Stage anonymity@cell: what a cell's rewrites hide of attributes, and what attackers infer from them all the same.

Of validation texts nothing is learned: they are attacked by those who never saw a rewrite.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.core import tables
from epsilometer.core.component import build as build_component
from epsilometer.core.guarantees import stored
from epsilometer.core.outcomes import Outcomes
from epsilometer.corpora.parts import GROUP
from epsilometer.models.classifier import Classifier, Examples, load, train
from epsilometer.models.tagging import Tagger
from epsilometer.pipeline.stages.shared.classification import chosen, fine_tuning, roles, seeds, stream
from epsilometer.project.cells import build
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.project.parts import parted
from epsilometer.project.paths import anonymity_path, anonymized_path, classifier_path
from epsilometer.runtime.progress import track
from epsilometer.utility.anonymity import edits, statuses
from epsilometer.utility.attackers import STATIC, Learned
from epsilometer.utility.attribute_loss import claimed
from epsilometer.utility.labelled import TRAIN, examples
from epsilometer.utility.llm_inference import LLMInference
from epsilometer.utility.measuring import Attacking, attacker_rows, detector_rows, victim_rows
from epsilometer.utility.released import Released, check_unseen
from epsilometer.utility.schemas import ANONYMITY, ANONYMIZED, ATTACKERS, BY_LENGTH, OUTCOMES

Rows = dict[str, list[dict[str, Any]]]
_TENTH = 10
SCHEMAS = {"anonymity": ANONYMITY, "by_length": BY_LENGTH, "outcomes": OUTCOMES, "attackers": ATTACKERS}


def main(name: str) -> None:
    """Write data/anonymity/<cell>/anonymity.parquet, by_length.parquet, outcomes.parquet and attackers.parquet."""
    params = read_params()
    cell = params.anonymity[name]
    table = parted(params, cell.dataset).with_row_index("row")
    measured: Rows = {what: [] for what in SCHEMAS}
    for epsilon in track(cell.budgets, len(cell.budgets), "anonymity"):
        rewrites = tables.read(anonymized_path(name, epsilon), ANONYMIZED)
        test, training = (
            table.with_columns(pl.col("row").cast(pl.Int64)).join(part.rename({"text": "rewrite"}), on="row")
            for part in (rewrites.filter(split=cell.part), rewrites.filter(split=TRAIN))
        )
        _check_unseen(cell.dataset, cell.resource, test["id"].to_list())
        named = {"dataset": cell.dataset, "mechanism": cell.mechanism, "epsilon": stored(epsilon)}
        for what, rows in _measure(params, name, epsilon, test=test, training=training).items():
            measured[what] += [named | row for row in rows]
    for what, schema in SCHEMAS.items():
        tables.write(pl.DataFrame(measured[what], schema=dict(schema)), anonymity_path(name, what), schema)


def _measure(params: Params, name: str, epsilon: float, *, test: pl.DataFrame, training: pl.DataFrame) -> Rows:
    """The rows of all tables at one epsilon."""
    cell = params.anonymity[name]
    labels = params.classification.labels[cell.dataset]
    released, learned_from = (_released(params, cell.dataset, part) for part in (test, training))
    victims = {label: _victims(params, cell.dataset, label) for label, _ in roles(params, cell.dataset)}
    found: Rows = {"anonymity": [], "by_length": [], "outcomes": list(statuses(released)), "attackers": []}
    edited = edits(released, Tagger())
    for attribute in labels.attributes:
        for task in labels.tasks:
            rows = victim_rows(released, attribute, task, victims, edits=edited, alpha=params.audit.alpha)
            for row, by_length in rows:
                found["anonymity"].append(row)
                found["by_length"] += by_length
    settings = _attacking(params, cell.dataset, retrained=len(learned_from) > 0)
    mechanism, attacking = build(params, cell), params.attackers.kinds or params.classification.kinds
    for label in labels.attributes:
        found["attackers"] += attacker_rows(
            learned_from,
            released,
            label,
            [one for one in victims[label] if one.classifier.kind in attacking],
            train=partial(_train, params, cell.dataset, label),
            claimed=lambda of: claimed(mechanism, epsilon, of.originals),
            settings=settings,
        )
    kinds = [(kind, seed) for kind in attacking for seed in _seeds(params, kind)]
    learn = partial(_train, params, cell.dataset, "rewritten")
    if len(learned_from):
        found["attackers"] += detector_rows(learned_from, released, kinds, train=learn, settings=settings)
    return found


def _released(params: Params, dataset: str, part: pl.DataFrame) -> Released:
    labels = {label: part[label].to_list() for label, _ in roles(params, dataset)}
    groups = part[GROUP].cast(pl.String).to_list() if params.datasets[dataset].group else None
    return Released(
        part["text"].to_list(), part["rewrite"].to_list(), labels, groups=groups, outcomes=Outcomes.of(part)
    )


def _victims(params: Params, dataset: str, label: str) -> list[Learned]:
    """The classifiers that stage `classifiers` keeps of a label, a kind and seed each."""
    own = examples(chosen(params, dataset, label), label, TRAIN)
    device = params.classification.training.device
    return [
        Learned(load(classifier_path(dataset, label, kind, seed), device), own, seed)
        for kind in params.classification.kinds
        for seed in _seeds(params, kind)
    ]


def _language_models(params: Params, dataset: str) -> dict[str, LLMInference]:
    """The language models that are asked; one behind an endpoint sees texts of public data sets alone."""
    models = {
        name: build_component(LLMInference, settings, f"attackers.llm.{name}")
        for name, settings in params.attackers.llm.items()
    }
    for model in models.values():
        model.check(params.datasets[dataset].public)
    return models


def _seeds(params: Params, kind: str) -> range:
    return range(min(seeds(params, kind), params.attackers.seeds))


def _attacking(params: Params, dataset: str, retrained: bool) -> Attacking:
    settings = params.attackers
    names = settings.names if retrained else [name for name in settings.names if name == STATIC]
    models = _language_models(params, dataset)
    return Attacking(names, settings.authors, models, params.audit.alpha, seed=params.audit.seed)


def _train(params: Params, dataset: str, label: str, kind: str, seed: int, examples: Examples) -> Classifier:
    """An attacker, trained as the victims are; of several epochs the best is chosen by a tenth of its examples."""
    settings, validation = fine_tuning(params, params.classification.training), None
    if settings.epochs > 1:
        rows = [[i for i in range(len(examples)) if (i % _TENTH == 0) is held] for held in (True, False)]
        validation, examples = (
            Examples([examples.texts[i] for i in part], [examples.labels[i] for i in part]) for part in rows
        )
    return train(kind, examples, settings, stream(params, dataset, label, seed), validation=validation)


def _check_unseen(dataset: str, resource: str | None, test: list[str]) -> None:
    """Refuse victims and auxiliaries that learned from test texts."""
    for who, folder in (("the victims", Path("data/classifiers", dataset)), ("the auxiliaries", Path(resource or ""))):
        if (about := folder / "about.json").is_file():
            check_unseen(test, tables.read_json(about).get("texts", []), who)
