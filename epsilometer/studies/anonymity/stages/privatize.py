"""Stage privatize@cell: the texts that classifiers are trained on, and attackers tested on, rewritten at every
epsilon, with noise of its own for each seed of the classifiers.

Slices stay under data/privatizing until all are there, so that a stopped run continues where it stopped.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core import tables
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.project.cells import build
from epsilometer.project.code import digest
from epsilometer.studies.anonymity.labelled import to_rewrite
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.parts import parted
from epsilometer.studies.anonymity.privatizing import collect, privatize
from epsilometer.studies.anonymity.tables import PRIVATIZED, privatized_path


def main(name: str) -> None:
    """Write data/privatized/<cell>/<epsilon>.parquet, with the columns of `core.outcomes` where there are outcomes."""
    params = read_params()
    cell, settings = params.downstream[name], params.classification
    labels = settings.labels[cell.dataset]
    rows = to_rewrite(
        parted(params, cell.dataset),
        labels.tasks,
        labels.attributes,
        settings.texts.sizes,
        seed=params.audit.seed,
        least=settings.training.batch,
    )
    texts, seeds = rows["text"].to_list(), settings.training.seeds
    row, seed = np.tile(rows["row"].to_numpy(), seeds), np.repeat(np.arange(seeds), len(rows))
    numbers = row + (seed << 32)  # a stream a text and seed
    stream = (params.audit.seed, params.audit.round, "privatize", cell.dataset, cell.mechanism)
    streams = [Noise.named(numbers, *stream, epsilon) for epsilon in cell.budgets]
    whole = Path("data/privatizing") / name
    inputs = [stream, cell.model_dump(), numbers.tolist()]
    code, read = [Path(__file__), params.code(cell)], [Path(cell.resource)] if cell.resource else []
    folder = whole / digest(inputs, texts, code, read, project=Path(params.root).resolve())
    job = Job(texts, np.tile(np.arange(len(texts)), seeds), cell.budgets, streams)
    privatize(partial(_mechanism, params, name), job, folder, params.runtime.engine)
    for epsilon in cell.budgets:
        table = pl.DataFrame({"row": row, "seed": seed}).hstack(collect(folder, epsilon))
        tables.write(table, privatized_path(name, epsilon), PRIVATIZED)
    shutil.rmtree(whole)


def _mechanism(params: AnonymityParams, name: str) -> Mechanism:
    return build(params, params.downstream[name])
