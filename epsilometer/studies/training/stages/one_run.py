"""Stage one_run@name: what canaries prove of a training at each level; heads trained with them are not kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from epsilometer.auditing.one_run.scores import Judging
from epsilometer.auditing.one_run.training import AUDITED, Claimed, audited, guessing
from epsilometer.core import tables
from epsilometer.core.guarantees import Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import track
from epsilometer.studies.training.params import OneRunEntry, TrainingParams
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import one_run_path
from epsilometer.studies.training.trainings import (
    classes,
    first_head,
    noise,
    schedule,
    settings,
    stream_seed,
    training_count,
    training_texts,
)
from epsilometer.training import gradient_canaries
from epsilometer.training.features import Frozen
from epsilometer.training.gradient_canaries import Run
from epsilometer.training.noise import TrainingNoise
from epsilometer.training.planted import States, mislabelled, planted, random_token_texts, randomly_labelled
from epsilometer.training.private import Settings

TESTS = {"gradient": 3, "mislabelled": 1, "random": 1}  # scores a level, of batches drawn by coins


def main(name: str) -> None:
    """Write data/one_run/<name>.parquet (schema AUDITED)."""
    params = read_params()
    entry = params.one_run[name]
    cell = params.private_training[entry.training]
    tests = len(entry.steps) * (TESTS[entry.kind] + (entry.kind == "gradient" and cell.sampling == "shuffled"))
    rows: list[dict[str, Any]] = []
    canaries = None if entry.kind == "gradient" else _canaries(params, entry)
    for level in track(entry.steps, len(entry.steps), name):
        training_noise = noise(entry.noise, level)
        if canaries is None:
            run, claimed = _white_box(params, entry, training_noise)
        else:
            run, claimed = _black_box(params, entry, training_noise, canaries)
        delta = entry.delta or 1 / claimed.schedule.texts
        judging = guessing(Judging(delta, params.audit.alpha, tests=tests), entry.canaries, entry.guesses)
        about = {"cell": name, "noise": entry.noise.kind, "level": level, "kind": entry.kind}
        rows += [about | row for row in audited(run.coins, run.scores, claimed, judging)]
    tables.write(pl.DataFrame(rows, schema=AUDITED), one_run_path(name), AUDITED)


def _neighbours(entry: OneRunEntry) -> Neighbours:
    return Neighbours.REPLACED if entry.noise.kind == "vmf" else Neighbours.ADDED_OR_REMOVED


def _white_box(params: TrainingParams, entry: OneRunEntry, training_noise: TrainingNoise) -> tuple[Run, Claimed]:
    """Updates of gradient canaries alone, which no model takes."""
    steps = schedule(params.private_training[entry.training], training_count(params, entry.training))
    replaced = _neighbours(entry) is Neighbours.REPLACED
    size = first_head(params, entry.training, 0).size if replaced else entry.canaries + 1
    canaries = gradient_canaries.Canaries(entry.canaries, size, replaced)
    run = gradient_canaries.run(canaries, training_noise, steps, stream_seed(params, 0))
    return run, Claimed(training_noise.release((size,)), steps, _neighbours(entry))


def _black_box(
    params: TrainingParams, entry: OneRunEntry, training_noise: TrainingNoise, canaries: tuple[States, States]
) -> tuple[Run, Claimed]:
    """A head trained on planted texts, and its losses at the canaries."""
    head, replaced = first_head(params, entry.training, 0), _neighbours(entry) is Neighbours.REPLACED

    def settings_for(texts: int) -> Settings:
        return replace(settings(params, entry.training, texts, None, seed=0), noise=training_noise)

    run, steps = planted(head, *canaries, settings_for=settings_for, replaced=replaced)
    return run, Claimed(training_noise.release(head.parts), steps, _neighbours(entry))


def _canaries(params: TrainingParams, entry: OneRunEntry) -> tuple[States, States]:
    """The canaries, and the training texts beside them."""
    texts = training_texts(params, entry.training)
    others = States(texts.states, texts.labels, texts.labels)
    generator = Noise.named(1, stream_seed(params, 0), "canaries", entry.kind).generator(0)
    count = len(classes(params, entry.training))
    if entry.kind == "mislabelled":
        return mislabelled(others, count, entry.canaries, generator)
    of = params.features[entry.features]
    frozen = Frozen(of.model, of.length)
    made_up = random_token_texts(frozen.tokenizer, of.length, entry.canaries, generator)
    return randomly_labelled(frozen.states(made_up), count, generator), others
