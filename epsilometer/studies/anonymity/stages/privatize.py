"""Stage privatize@cell: rewrites, at every epsilon, of the texts that classifiers are trained and tested on.

Each seed of the classifiers gets rewrites with fresh noise. The two sides of a pair are rewritten as two texts, with
independent noise. A mechanism that asks classifiers receives the true labels if it runs `as_published`, as in the
papers.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core import tables
from epsilometer.core.mechanism import Mechanism, Truths
from epsilometer.core.randomness import Noise
from epsilometer.project.cells import build
from epsilometer.runtime.resuming import parts
from epsilometer.studies.anonymity.labelled import takes_truths, to_rewrite, truths, with_true_labels
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.params import read as read_params
from epsilometer.studies.anonymity.parts import parted
from epsilometer.studies.anonymity.privatizing import collect, privatize
from epsilometer.studies.anonymity.tables import PRIVATIZED, privatized_path


def main(name: str) -> None:
    """Write data/privatized/<cell>/<epsilon>.parquet. It has the columns of `core.outcomes` if there are outcomes."""
    params = read_params()
    cell, settings = params.downstream[name], params.classification
    labels = settings.labels[cell.dataset]
    rows = to_rewrite(
        parted(params, cell.dataset),
        [*labels.tasks, *labels.attributes],
        labels.numbers,
        settings.texts.sizes,
        seed=params.audit.seed,
        least=settings.training.batch,
    )
    sides, seeds = params.datasets[cell.dataset].sides or ("text",), settings.training.seeds
    texts = [text for side in sides for text in rows[side]]
    row, seed = np.tile(rows["row"].to_numpy(), len(sides) * seeds), np.repeat(np.arange(seeds), len(texts))
    side = np.tile(np.repeat(np.arange(len(sides)), len(rows)), seeds)
    numbers = row + (seed << 32) + (side << 31)  # a stream per text and seed
    stream = (params.audit.seed, params.audit.round, "privatize", cell.dataset, cell.mechanism)
    streams = [Noise.named(numbers, *stream, epsilon) for epsilon in cell.budgets]
    tell = takes_truths(build(params, cell))
    true_labels = truths(rows, [*labels.attributes, *labels.tasks], cell.dataset) if tell else None
    job = Job(texts, np.tile(np.arange(len(texts)), seeds), cell.budgets, streams)
    with parts() as begun:
        privatize(partial(_mechanism, params, name, true_labels), job, begun.folder, params.runtime.engine)
        for epsilon in cell.budgets:
            table = pl.DataFrame({"row": row, "seed": seed, "side": side}).hstack(collect(begun.folder, epsilon))
            tables.write(table, privatized_path(name, epsilon), PRIVATIZED)


def _mechanism(params: AnonymityParams, name: str, true_labels: Truths | None) -> Mechanism:
    return with_true_labels(build(params, params.downstream[name]), true_labels)
