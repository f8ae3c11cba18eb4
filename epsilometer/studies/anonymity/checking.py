"""Checks of this study's settings before an audit runs: auxiliaries, rewriters, and the labels of data sets."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from epsilometer.core.component import build
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Mechanism
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries, ReadsAuxiliaries, read_relations
from epsilometer.project import cells
from epsilometer.project.sections import Cell
from epsilometer.studies.anonymity.labelled import TEST, TRAIN, examples, labelled, to_anonymize, to_rewrite
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.parts import check_parts, with_parts
from epsilometer.studies.anonymity.victims import check_divided


def check(params: AnonymityParams) -> None:
    """Build all mechanisms and the training of rewriters, and read the files of word relations that exist.

    Raises UserError for an invalid setting.
    """
    for cell in (*params.downstream.values(), *params.anonymity.values()):
        check_auxiliaries(params, cell, cells.build(params, cell), f"mechanisms.{cell.mechanism}.settings")
    for entry in params.auxiliaries.values():
        if entry.relations is not None and Path(params.path(entry.relations)).exists():
            read_relations(params.path(entry.relations))
    if params.rewriters:  # import on demand: the module needs torch
        from epsilometer.mechanisms.anonymisers.shared.adversarial_rewriter import AdversarialTraining

        for name, rewriter in params.rewriters.items():
            cells.build(params, rewriter.cell)
            build(AdversarialTraining, rewriter.training, f"rewriters.{name}.training")


def check_auxiliaries(params: AnonymityParams, cell: Cell, built: Mechanism, place: str) -> None:
    """Raise UserError if a mechanism's settings do not fit its auxiliaries.

    Auxiliaries that a stage trains are checked by their entry in params.yaml, not by their files.
    """
    if cell.resource is None or not isinstance(built, ReadsAuxiliaries):
        return
    path = Path(os.path.normpath(cell.resource))
    of_stage = path.parent == Path("data/auxiliaries") and path.name in params.auxiliaries
    planned = params.auxiliaries[path.name].model_dump() if of_stage else None
    try:
        built.check_auxiliaries(Auxiliaries(Path(cell.resource), planned))
    except UserError as error:
        raise error.at(place) from error


def check_texts(params: AnonymityParams, name: str, table: pl.DataFrame) -> None:
    """Raise UserError if classifiers cannot use the parts or labels of a data set. table: the prepared data set."""
    if (labels := params.classification.labels.get(name)) is None:
        return
    settings = params.classification
    table = with_parts(params, name, table)
    check_parts(params, name, table)
    seed, batch = params.audit.seed, settings.training.batch
    every = [*labels.tasks, *labels.attributes]
    to_rewrite(table, every, labels.numbers, settings.texts.sizes, seed=seed, least=batch)
    for label in every:
        check_divided(params, label, examples(labelled(table, label, settings.texts.sizes, seed), label, TRAIN))
    if any(cell.dataset == name and cell.part == TEST for cell in params.anonymity.values()):
        rewritten = to_anonymize(table, every, params.anonymized, seed, least=batch)
        for label in labels.attributes if TRAIN in params.anonymized else ():  # attackers are trained on these rewrites
            check_divided(params, label, examples(rewritten.filter(pl.col(label).is_not_null()), label, TRAIN))
