"""Measurement of a cell's rewrites at one epsilon, and a check that no classifier was trained on the test texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.attributes.attackers import STATIC
from epsilometer.auditing.attributes.attribute_loss import claimed
from epsilometer.auditing.attributes.measuring import Attacking, attacker_rows, detector_rows, victim_rows
from epsilometer.auditing.attributes.released import check_unseen
from epsilometer.auditing.attributes.success import edits, statuses
from epsilometer.core import tables
from epsilometer.core.component import build as build_component
from epsilometer.core.errors import UserError
from epsilometer.models.tagging import Tagger
from epsilometer.project.cells import build
from epsilometer.runtime.progress import warn
from epsilometer.studies.anonymity.llm_inference import LLMInference
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.quality import metrics, quality
from epsilometer.studies.anonymity.victims import attackers_of, located, released, roles, trained, victims

Rows = dict[str, list[dict[str, Any]]]


def measured_rows(
    params: AnonymityParams, name: str, epsilon: float, *, test: pl.DataFrame, training: pl.DataFrame
) -> Rows:
    """Return the rows of each table of stage `anonymity` at one epsilon, by the table's name.

    test, training: texts with their labels and rewrites; without training texts, only static attackers are used.
    """
    cell = params.anonymity[name]
    labels = params.classification.labels[cell.dataset]
    tested, learned_from = (released(params, cell.dataset, part) for part in (test, training))
    of_label = {label: victims(params, cell.dataset, label) for label, _ in roles(params, cell.dataset)}
    grammar = params.classification.grammar
    judged = metrics(None if grammar is None else located(params, grammar))
    lines: Rows = {
        "anonymity": [],
        "by_length": [],
        "quality": list(quality(tested, params.audit.alpha, judged)),
        "outcomes": list(statuses(tested)),
        "attackers": [],
    }
    edited = edits(tested, Tagger())
    together = [labels.attributes] if len(labels.attributes) > 1 else []
    for attributes in [*((attribute,) for attribute in labels.attributes), *together]:
        for task in labels.tasks:
            try:
                rows = list(victim_rows(tested, attributes, task, of_label, edits=edited, alpha=params.audit.alpha))
            except UserError as error:
                if attributes not in together:
                    raise
                warn(f"{' and '.join(attributes)} are not measured together: {error}")
                continue
            for row, by_length in rows:
                lines["anonymity"].append(row)
                lines["by_length"] += by_length
    settings = _attacking(params, cell.dataset, retrained=len(learned_from) > 0)
    mechanism, attacking = build(params, cell), attackers_of(params)
    for label in labels.attributes:
        lines["attackers"] += attacker_rows(
            learned_from,
            tested,
            label,
            [learned for learned in of_label[label] if (learned.classifier.kind, learned.seed) in attacking],
            train=partial(trained, params, cell.dataset, label),
            claimed=lambda of: claimed(mechanism, epsilon, of.originals),
            settings=settings,
        )
    if len(learned_from):
        learn = partial(trained, params, cell.dataset, "rewritten")
        lines["attackers"] += detector_rows(learned_from, tested, attacking, train=learn, settings=settings)
    return lines


def _language_models(params: AnonymityParams, dataset: str) -> dict[str, LLMInference]:
    """Return the language models that attack. Raises UserError if an endpoint would see texts that are not public."""
    models = {
        name: build_component(LLMInference, settings, f"attackers.llm.{name}")
        for name, settings in params.attackers.llm.items()
    }
    for model in models.values():
        model.check(params.datasets[dataset].public)
    return models


def _attacking(params: AnonymityParams, dataset: str, retrained: bool) -> Attacking:
    settings = params.attackers
    names = settings.names if retrained else [name for name in settings.names if name == STATIC]
    models = _language_models(params, dataset)
    return Attacking(names, settings.authors, models, params.audit.alpha, seed=params.audit.seed)


def check_learned_from_others(dataset: str, resource: str | None, test: list[str]) -> None:
    """Raise UserError if victims or auxiliaries were trained on test texts.

    resource: the cell's folder of auxiliaries; None without auxiliaries. test: the ids of the test texts.
    """
    for who, folder in (("the victims", Path("data/classifiers", dataset)), ("the auxiliaries", Path(resource or ""))):
        if (about := folder / "about.json").is_file():
            check_unseen(test, tables.read_json(about).get("texts", []), who)
