"""Recorded figures of the questions in params.yaml, and the code and settings behind the figures, for re-audits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.core.tables import Schema
from epsilometer.doors.record import RECORD
from epsilometer.pipeline.question_params import QuestionParams, recorded_path
from epsilometer.project import code
from epsilometer.reaudit.drift import Measured, Row
from epsilometer.reaudit.sources import Source

# name: the entry's name in params.yaml.
ASKED: Schema = {"name": pl.String, "dataset": pl.String, "mechanism": pl.String, **RECORD}


def recorded(params: QuestionParams, name: str, folder: Path = Path(".")) -> pl.DataFrame:
    """Return those figures of an entry that have an outcome for each trial, as stage `asked` wrote them; schema ASKED.

    Raises UserError if the budgets of the figures are not those of params.yaml.
    """
    table = tables.read(folder / recorded_path(name), ASKED)
    if {*table["epsilon"].unique()} != {stored(epsilon) for epsilon in params.cell(params.questions[name]).budgets}:
        raise UserError(
            f"the figures of {name} do not match params.yaml; bring them up to date (dvc repro)", "EPS-P001"
        )
    return table.filter(pl.col("outcomes").list.len() > 0, ~pl.col("figure").str.starts_with(STRONGEST))


def measure(params: QuestionParams, folder: Path = Path(".")) -> dict[Row, Measured]:
    """Return each question's figures that have an outcome for each trial. Larger outcomes are worse."""
    audit: dict[Row, Measured] = {}
    for name, entry in params.questions.items():
        for row in recorded(params, name, folder).iter_rows(named=True):
            outcomes = np.array(row["outcomes"])
            ends = (row["low"], row["point"], row["high"])
            of = Row(entry.dataset, entry.mechanism, row["epsilon"], f"{name}: {row['figure']}")
            worse = 1 - outcomes if row["at_least"] else outcomes
            audit[of] = Measured.of_figure(worse, row["drawn"], ends, row["measure"], alpha=params.audit.alpha)
    return audit


def sources(params: QuestionParams, folder: Path = Path(".")) -> list[Source]:
    """Return the sources of each entry's figures: the code and the settings of its question and of its mechanism."""
    from epsilometer.pipeline import asking  # its libraries load slowly

    project = (folder / params.root).resolve()
    every = []
    for name, entry in params.questions.items():
        files = [folder / file for file in asking.code(params, name)]
        settings = {"entry": entry.model_dump(mode="json"), "mechanism": params.cell(entry).model_dump(mode="json")}
        record = code.Reading(project).code(files).by_path() | {"settings": json.loads(json.dumps(settings))}
        every.append(Source(f"question-{name}", record))
    return every
