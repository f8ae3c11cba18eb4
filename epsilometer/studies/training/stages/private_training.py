"""Stage private_training@cell: heads, or more of a network, trained on features, a folder for each level and seed.

A folder is finished when it has its `record.json`, which names all that its head depends on; a folder whose record is
still right is left alone, so that a level that is added, or a stage that was killed, retrains nothing else. DVC leaves
the cell's folder there between runs (`persist` in dvc.yaml). What a folder says of single steps was computed from
private texts without noise, and stays in data/. Where there are several times as many trainings as processes may run
(`runtime.workers`), they are shared out among these; a training is the same in any of them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.schemas import RUNS
from epsilometer.core import tables
from epsilometer.runtime.scaling import Engine, run
from epsilometer.studies.training.params import HEAD, TrainingParams
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import features_path, head_path, runs_path, trained_path
from epsilometer.studies.training.trainings import (
    TRAIN,
    LabelledTexts,
    first_head,
    settings,
    texts_tested_on,
    training_texts,
)
from epsilometer.training.features import ABOUT
from epsilometer.training.private import Trained, train
from epsilometer.training.scores import scores

CODE = Path("data/code/private_training.json")
RECORD = "record.json"
SHARE = 4  # trainings that a process has at least: it takes as long to begin as two of a small head
STEPS: tables.Schema = {"step": pl.Int64, "batch": pl.Int64, "norm": pl.Float64}


def main(name: str) -> None:
    """Write data/trained/<cell>/<level>-<seed>/ and data/trained/<cell>/runs.parquet."""
    params = read_params()
    cell = params.private_training[name]
    trainings = list(product(cell.steps, range(cell.seeds)))
    _clear(trained_path(name), [trained_path(name, *training) for training in trainings])
    hashes = _hashes(_texts(params, name))
    missing = [
        training
        for training in trainings
        if not _finished(trained_path(name, *training), _record(params, name, *training) | hashes)
    ]
    # Checkpoints are files of this machine, whatever else runs on a cluster.
    workers = min(params.runtime.workers, max(1, len(missing) // SHARE)) if params.runtime.ray is None else 1
    for _ in run(partial(_training, name), missing, Engine(workers), name):
        pass
    rows = [
        {"level": level, "seed": seed, "split": split, "metric": metric, "value": value}
        for level, seed in trainings
        for split, values in tables.read_json(trained_path(name, level, seed) / RECORD)["scores"].items()
        for metric, value in values.items()
    ]
    tables.write(pl.DataFrame(rows, schema=dict(RUNS)), runs_path(name), RUNS)


def _training(name: str) -> Callable[[tuple[float | None, int]], None]:
    """The function of a level and a seed that trains this head of a cell, and writes its folder."""
    params = read_params()
    texts = _texts(params, name)
    hashes = _hashes(texts)

    def trained(training: tuple[float | None, int]) -> None:
        _train(params, name, *training, record=_record(params, name, *training) | hashes, texts=texts)

    return trained


def _texts(params: TrainingParams, name: str) -> dict[str, LabelledTexts]:
    """The texts that a cell is trained on, and those that it is tested on, by split."""
    return {TRAIN: training_texts(params, name), params.private_training[name].test: texts_tested_on(params, name)}


def _hashes(texts: dict[str, LabelledTexts]) -> dict[str, Any]:
    """What a record says of the texts."""
    return {"texts": _digest([array.tobytes() for part in texts.values() for array in (part.labels, part.states)])}


def _finished(folder: Path, record: dict[str, Any]) -> bool:
    return (folder / RECORD).is_file() and bool(tables.read_json(folder / RECORD)["of"] == record)


def _train(
    params: TrainingParams,
    name: str,
    level: float | None,
    seed: int,
    *,
    record: dict[str, Any],
    texts: dict[str, LabelledTexts],
) -> None:
    """One training, from its checkpoint if a run of the same record was killed."""
    folder = trained_path(name, level, seed)
    begun = folder / "begun.json"
    if not begun.is_file() or tables.read_json(begun) != record:
        shutil.rmtree(folder, ignore_errors=True)
        tables.write_json(record, begun)
    own = texts[TRAIN]
    chosen = settings(params, name, len(own), level, seed=seed)
    trained = train(
        first_head(params, name, seed), own.states, own.labels, chosen, checkpoint=folder / "checkpoint.safetensors"
    )
    trained.head.save(head_path(name, level, seed))
    _write_steps(trained, folder)
    measured = {split: scores(trained.head, part.states, part.labels) for split, part in texts.items()}
    tables.write_json({"of": record, "scores": measured}, folder / RECORD)
    begun.unlink()


def _write_steps(trained: Trained, folder: Path) -> None:
    steps = {"step": np.arange(len(trained.batches)), "batch": trained.batches, "norm": trained.norms}
    tables.write(pl.DataFrame(steps), folder / "steps.parquet", STEPS)
    tables.write_array(trained.losses, folder / "losses.npy")


def _record(params: TrainingParams, name: str, level: float | None, seed: int) -> dict[str, Any]:
    """What a head depends on, its texts and features apart: of the cell all but the other levels and seeds."""
    cell = params.private_training[name].model_dump(mode="json", exclude={"levels", "seeds"})
    code = CODE.read_bytes() if CODE.is_file() else b""
    own = params.private_training[name]
    # Of a head, states say what the network is; token ids do not.
    of = {} if own.trains == HEAD else tables.read_json(features_path(own.features) / ABOUT)
    return {
        "model": of.get("model"),
        "cell": cell,
        "level": level,
        "seed": [params.audit.seed, params.audit.round, seed],
        "code": _digest([code]),
    }


def _clear(folder: Path, wanted: list[Path]) -> None:
    """Delete what trainings that are no longer asked for have left."""
    for path in folder.glob("*/"):
        if path not in wanted:
            shutil.rmtree(path)


def _digest(parts: list[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
