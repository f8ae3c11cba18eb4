"""Stage one_run@name: the losses that canaries prove about a training at each level. The heads are not saved."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.core import tables
from epsilometer.runtime.progress import track
from epsilometer.studies.training.canaries import black_box, planted_canaries, white_box
from epsilometer.studies.training.one_run.scores import Judging
from epsilometer.studies.training.one_run.training import AUDITED, audited, guessing
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import one_run_path
from epsilometer.studies.training.trainings import noise

TESTS = {"gradient": 3, "mislabelled": 1, "random": 1}  # number of scores per level, with Poisson sampling


def main(name: str) -> None:
    """Write data/one_run/<name>.parquet (schema AUDITED)."""
    params = read_params()
    entry = params.one_run[name]
    cell = params.private_training[entry.training]
    tests = len(entry.steps) * (TESTS[entry.kind] + (entry.kind == "gradient" and cell.sampling == "shuffled"))
    rows: list[dict[str, Any]] = []
    canaries = None if entry.kind == "gradient" else planted_canaries(params, entry)
    for level in track(entry.steps, len(entry.steps), name):
        training_noise = noise(entry.noise, level)
        if canaries is None:
            run, claimed = white_box(params, entry, training_noise)
        else:
            run, claimed = black_box(params, entry, training_noise, canaries)
        delta = entry.delta or 1 / claimed.schedule.texts
        judging = guessing(Judging(delta, params.audit.alpha, tests=tests), entry.canaries, entry.guesses)
        about = {"cell": name, "noise": entry.noise.kind, "level": level, "kind": entry.kind}
        rows += [about | row for row in audited(run.coins, run.scores, claimed, judging)]
    tables.write(pl.DataFrame(rows, schema=AUDITED), one_run_path(name), AUDITED)
