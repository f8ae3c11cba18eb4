"""Stage private_training@training: train heads, or more of a network, at one noise level, a folder per seed.

A folder's records of single steps are computed from private texts without noise, so they stay in data/. Up to
`runtime.workers` processes share the trainings, if each process gets at least SHARE. A training's result does not
depend on the process that runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl

from epsilometer.core import tables
from epsilometer.runtime.resuming import Parts, parts
from epsilometer.runtime.scaling import Engine, run
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.runs.private import train
from epsilometer.studies.training.runs.records import scores, write_steps
from epsilometer.studies.training.tables import HEAD_FILE, RUNS, runs_path, trained_path
from epsilometer.studies.training.trainings import (
    TRAIN,
    LabelledTexts,
    first_head,
    settings,
    texts_tested_on,
    training_texts,
)

SCORES = "scores.json"
SHARE = 4  # minimum number of trainings per process; a process starts in the time of two trainings of a small head


def main(name: str) -> None:
    """Write data/trained/<cell>/<level>/<seed>/ and data/trained/<cell>/<level>/runs.parquet."""
    params = read_params()
    training = params.trainings[name]
    cell, level = training.cell, training.level
    seeds = range(params.private_training[cell].seeds)
    _texts(params, cell)  # raises before any work
    rows = []
    with parts() as begun:
        missing = [seed for seed in seeds if str(seed) not in begun]
        # Checkpoints are local files, so trainings do not run on other machines of a cluster.
        workers = min(params.runtime.workers, max(1, len(missing) // SHARE)) if params.runtime.ray is None else 1
        for _ in run(partial(_training, name, begun), missing, Engine(workers), name):
            pass
        for seed in seeds:
            folder = trained_path(cell, level, seed)
            begun.copy(str(seed), folder)
            rows += [
                {"level": level, "seed": seed, "split": split, "metric": metric, "value": value}
                for split, values in tables.read_json(folder / SCORES).items()
                for metric, value in values.items()
            ]
        tables.write(pl.DataFrame(rows, schema=dict(RUNS)), runs_path(cell, level), RUNS)


def _training(name: str, begun: Parts) -> Callable[[int], None]:
    """Return a function that runs a training by its seed. An interrupted training resumes from its checkpoint."""
    params = read_params()
    cell, level = params.trainings[name].cell, params.trainings[name].level
    texts = _texts(params, cell)
    own = texts[TRAIN]

    def trained(seed: int) -> None:
        with begun.part(str(seed)) as folder:
            chosen, head = settings(params, cell, len(own), level, seed=seed), first_head(params, cell, seed)
            done = train(head, own.states, own.labels, chosen, checkpoint=folder / "checkpoint.safetensors")
            done.head.save(folder / HEAD_FILE)
            write_steps(done, folder)
            measured = {split: scores(done.head, part.states, part.labels) for split, part in texts.items()}
            tables.write_json(measured, folder / SCORES)

    return trained


def _texts(params: TrainingParams, cell: str) -> dict[str, LabelledTexts]:
    """Return the training texts and test texts of a cell, by split."""
    return {TRAIN: training_texts(params, cell), params.private_training[cell].test: texts_tested_on(params, cell)}
