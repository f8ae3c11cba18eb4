"""Stage private_training@cell: heads, or more of a network, trained on features, a folder for each level and seed.

A folder is finished when it has its `record.json`, which names all that its head depends on; a folder whose record is
still right is left alone, so that a level that is added, or a stage that was killed, retrains nothing else. DVC leaves
the cell's folder there between runs (`persist` in dvc.yaml). What a folder says of single steps was computed from
private texts without noise, and stays in data/.
"""

from __future__ import annotations

import hashlib
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing.schemas import RUNS
from epsilometer.core import tables
from epsilometer.project.params import Params
from epsilometer.project.params import read as read_params
from epsilometer.project.paths import features_path, head_path, runs_path, trained_path
from epsilometer.project.training_sections import HEAD
from epsilometer.project.trainings import TRAIN, LabelledTexts, first_head, settings, texts_tested_on, training_texts
from epsilometer.runtime.progress import track
from epsilometer.training.features import ABOUT
from epsilometer.training.private import Trained, train
from epsilometer.training.scores import scores

CODE = Path("data/code/private_training.json")
RECORD = "record.json"
STEPS: tables.Schema = {"step": pl.Int64, "batch": pl.Int64, "norm": pl.Float64}


def main(name: str) -> None:
    """Write data/trained/<cell>/<level>-<seed>/ and data/trained/<cell>/runs.parquet."""
    params = read_params()
    cell = params.private_training[name]
    texts = {TRAIN: training_texts(params, name), cell.test: texts_tested_on(params, name)}
    known = _digest([array.tobytes() for part in texts.values() for array in (part.labels, part.states)])
    trainings = list(product(cell.steps, range(cell.seeds)))
    _clear(trained_path(name), [trained_path(name, *training) for training in trainings])
    rows: list[dict[str, Any]] = []
    for level, seed in track(trainings, len(trainings), name):
        record = _record(params, name, level, seed) | {"texts": known}
        folder = trained_path(name, level, seed)
        if not (folder / RECORD).is_file() or tables.read_json(folder / RECORD)["of"] != record:
            _train(params, name, level, seed, record=record, texts=texts)
        measured = tables.read_json(folder / RECORD)["scores"]
        rows += [
            {"level": level, "seed": seed, "split": split, "metric": metric, "value": value}
            for split, values in measured.items()
            for metric, value in values.items()
        ]
    tables.write(pl.DataFrame(rows, schema=dict(RUNS)), runs_path(name), RUNS)


def _train(
    params: Params,
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
    asked = settings(params, name, len(own), level, seed=seed)
    trained = train(
        first_head(params, name, seed), own.states, own.labels, asked, checkpoint=folder / "checkpoint.safetensors"
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


def _record(params: Params, name: str, level: float | None, seed: int) -> dict[str, Any]:
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
