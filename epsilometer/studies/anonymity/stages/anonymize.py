"""Stage anonymize@cell: rewrites of the cell's texts at every epsilon, each with its outcome.

The texts are the test texts and, if attackers learn from rewrites, some of the victims' training texts. A cell with
`part: validation` has the validation texts instead. A mechanism that asks classifiers receives the true labels if it
runs `as_published`, as in the papers, or if the cell sets `true_labels`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Mechanism, Truths
from epsilometer.core.outcomes import COLUMNS
from epsilometer.core.randomness import Noise
from epsilometer.project.cells import build
from epsilometer.runtime.resuming import parts
from epsilometer.studies.anonymity.labelled import VALIDATION, takes_truths, to_anonymize, truths, with_true_labels
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.parts import check_parts, parted
from epsilometer.studies.anonymity.privatizing import collect, privatize
from epsilometer.studies.anonymity.tables import ANONYMIZED, anonymized_path


def main(name: str) -> None:
    """Write data/anonymized/<cell>/<epsilon>.parquet."""
    params = read_params()
    cell = params.anonymity[name]
    tell = takes_truths(build(params, cell), cell.true_labels)
    rows = _rows(params, name)
    texts, numbers = rows["text"].to_list(), rows["row"].to_numpy()
    stream = (params.audit.seed, params.audit.round, "anonymize", cell.dataset, cell.mechanism)
    streams = [Noise.named(numbers, *stream, epsilon) for epsilon in cell.budgets]
    labels = params.classification.labels[cell.dataset]
    true_labels = truths(rows, [*labels.attributes, *labels.tasks], cell.dataset) if tell else None
    job = Job(texts, np.arange(len(texts)), cell.budgets, streams)
    with parts() as begun:
        privatize(partial(_mechanism, params, name, true_labels), job, begun.folder, params.runtime.engine)
        for epsilon in cell.budgets:
            table = rows.select("row", "split").hstack(collect(begun.folder, epsilon))
            if "status" not in table.columns:
                table = table.with_columns(pl.lit(None, dtype).alias(column) for column, dtype in COLUMNS.items())
            tables.write(table, anonymized_path(name, epsilon), ANONYMIZED)


def _mechanism(params: AnonymityParams, name: str, true_labels: Truths | None) -> Mechanism:
    return with_true_labels(build(params, params.anonymity[name]), true_labels)


def _rows(params: AnonymityParams, name: str) -> pl.DataFrame:
    """Return the rows of the prepared table to rewrite; the column `row` contains their row numbers."""
    cell, settings = params.anonymity[name], params.classification
    labels = settings.labels[cell.dataset]
    counts = params.anonymized if cell.part == "test" else {VALIDATION: settings.texts.validation}
    every = [*labels.tasks, *labels.attributes]
    table = parted(params, cell.dataset)
    check_parts(params, cell.dataset, table)
    rows = to_anonymize(table, every, counts, params.audit.seed, least=settings.training.batch)
    if rows.is_empty():
        raise UserError(
            f"anonymity.{name}.part is {cell.part!r}, but {cell.dataset} has no labelled text in that split; set "
            f"datasets.{cell.dataset}.resplit, or leave `part` out",
            "EPS-S044",
        )
    return rows
