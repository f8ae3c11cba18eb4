"""Checks of this study's settings before an audit runs. This module loads the libraries for training, which is slow."""

from __future__ import annotations

import polars as pl

from epsilometer.core.file_names import absent
from epsilometer.studies.training import members, sending, trainings
from epsilometer.studies.training.params import TrainingParams


def check(params: TrainingParams) -> None:
    """Build each attack. Raises UserError if an attack cannot use its references or its own model."""
    for name, entry in params.membership.items():
        built = members.attacks(entry, f"membership.{name}")
        members.check_references(params.references[entry.references], built, f"membership.{name}")
        members.check_models(entry, built, f"membership.{name}")
    for name in params.searching:
        sending.searching(params, name)
    for name in params.choosing:
        sending.choosing(params, name)


def check_texts(params: TrainingParams, dataset: str, table: pl.DataFrame) -> None:
    """Raise UserError if a cell's data set has too few texts. table: the prepared data set."""
    for name, cell in params.private_training.items():
        if params.features[cell.features].dataset != dataset:
            continue
        place = f"private_training.{name}"
        for split in (trainings.TRAIN, cell.test):
            if split not in table["split"]:
                raise absent(f"split of {dataset} in {place}", split, table["split"].unique())
        train = table.filter(split=trainings.TRAIN).with_row_index("row")
        trainings.check_training(trainings.chosen(train, cell, params.audit.seed), cell, place)
        tested = table.filter(split=cell.test).drop_nulls(cell.label)
        trainings.check_tested(tested, cell, sorted(train[cell.label].drop_nulls().unique()), place)
