"""Stage references@name: models like those of a training, on texts of their own, that membership attacks compare with.

What they say of the examples is written; the models are not, and who was trained on what follows from the settings.
They are trained some at a time, and what is finished stays under data/referencing until all is there, so that a stopped
run continues where it stopped. DVC leaves the folder there between runs (`persist` in dvc.yaml), and where its record
is still right, as after another level was added to the cell, nothing is trained again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.runtime.scaling import run
from epsilometer.studies.training.members import (
    ANSWERS,
    GameTexts,
    attacks,
    check_models,
    first_heads,
    game_texts,
    reference_settings,
    split,
)
from epsilometer.studies.training.params import read as read_params
from epsilometer.studies.training.tables import references_path
from epsilometer.training.shadows import answers, train_together
from epsilometer.training.splits import Split

CODE = Path("data/code/references.json")
RECORD = "record.json"
BLOCK = 8  # models that are trained side by side: a constant, since sums of another shape differ in their last bits


def main(name: str) -> None:
    """Write data/references/<name>/answers.npy, log-probabilities [models, examples, classes], and record.json."""
    params = read_params()
    entry = params.references[name]
    texts = game_texts(params, entry.training)
    cut = split(params, name, texts)
    folder = references_path(name)
    record = _record(name, texts, cut)
    if (folder / RECORD).is_file() and tables.read_json(folder / RECORD) == record:
        return
    for place, compared in params.membership.items():  # which will want them
        if compared.references == name:
            check_models(compared, attacks(compared, f"membership.{place}"), f"membership.{place}")
    unfinished = Path("data/referencing") / name / record
    blocks = np.array_split(np.arange(entry.count), range(BLOCK, entry.count, BLOCK))
    missing = [block for block in blocks if not (unfinished / f"{block[0]}.npy").exists()]
    trained = run(partial(_training, name), missing, params.runtime.engine, name)
    for block, said in zip(missing, trained, strict=True):
        tables.write_array(said, unfinished / f"{block[0]}.npy")
    answered = [np.load(unfinished / f"{block[0]}.npy", allow_pickle=False) for block in blocks]
    (folder / RECORD).unlink(missing_ok=True)
    tables.write_array(np.concatenate(answered), folder / ANSWERS)
    tables.write_json(record, folder / RECORD)
    shutil.rmtree(unfinished.parent)


def _training(name: str) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """The function of a block of numbers that trains these references; what they say of the examples."""
    params = read_params()
    texts = game_texts(params, params.references[name].training)
    cut = split(params, name, texts)

    def trained(block: NDArray[np.int64]) -> NDArray[np.float64]:
        settings = [reference_settings(params, name, int(number), texts.training) for number in block]
        first = first_heads(params, name, block)
        heads = train_together(first, texts.states, texts.labels, cut.chosen[block], settings=settings)
        return answers(heads, texts.states[cut.examples])

    return trained


def _record(name: str, texts: GameTexts, cut: Split) -> str:
    """A name for all that the answers depend on."""
    params = read_params()
    entry = params.references[name]
    cell = params.private_training[entry.training].model_dump(mode="json", exclude={"levels", "seeds", "test"})
    settings = [entry.model_dump(mode="json"), cell, params.audit.seed, params.audit.round]
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16)
    digest.update(CODE.read_bytes() if CODE.is_file() else b"")
    for array in (texts.states, texts.labels, cut.examples, cut.questioned, cut.chosen):
        digest.update(array.tobytes())
    return digest.hexdigest()
