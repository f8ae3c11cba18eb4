"""Record the batch sizes of networks in a stage on a GPU, where kernels and rounding depend on a batch's shape.

On CUDA, the number of rows of a batch follows from the model, the lengths of the texts and a budget of bytes. When
memory runs out, this number is halved. A stage that used CUDA records batch sizes and halvings by model in
`data/batches/STAGE[/ENTRY].json`. On the CPU, shapes are constants, and there is no record. If a killed stage is
resumed, the record has the batches of all runs of the stage.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epsilometer.core.atomic import read_json, write_json

FOLDER = Path("data/batches")
_NOTES = "EPSILOMETER_BATCHES"  # environment variable: folder for notes of a stage's processes (on Ray: of all nodes)

_noted: set[str] = set()


def noted(model: str, budget: int, halvings: int, *, each: int | None = None, rows: int | None = None) -> None:
    """Note, once per process, that a model's batches have `rows` rows of `each` bytes.

    budget: the bytes that a batch may take. halvings: how often the number of rows was halved.
    """
    if (folder := os.environ.get(_NOTES)) is None:
        return
    line = json.dumps([model, budget, halvings, each, rows])
    if line not in _noted:
        _noted.add(line)
        Path(folder).mkdir(parents=True, exist_ok=True)
        with Path(folder, f"{socket.gethostname()}-{os.getpid()}").open("a") as file:
            file.write(f"{line}\n")


@contextmanager
def recorded(stage: str) -> Iterator[None]:
    """Write the record of a stage, such as "rewrite/queries-tem", after the block. Without notes, delete the record.

    After an exception the notes stay, for the run that resumes the stage.
    """
    record, notes = FOLDER / f"{stage}.json", FOLDER / f"{stage}.notes"
    before, os.environ[_NOTES] = os.environ.get(_NOTES), str(notes)
    _noted.clear()
    try:
        yield
    finally:
        os.environ.pop(_NOTES)
        if before is not None:
            os.environ[_NOTES] = before
    if notes.is_dir():
        write_json(_by_model(notes), record)
        shutil.rmtree(notes)
    else:
        record.unlink(missing_ok=True)


def _by_model(notes: Path) -> list[dict[str, Any]]:
    """Summarise the notes by model and budget: the largest number of halvings, and batches [bytes per row, rows]."""
    lines = [line for file in sorted(notes.iterdir()) for line in file.read_text().splitlines()]
    models: dict[tuple[str, int], dict[str, Any]] = {}
    for model, budget, halvings, each, rows in sorted(map(json.loads, set(lines)), key=json.dumps):
        entry = models.setdefault((model, budget), {"model": model, "budget": budget, "halvings": 0, "batches": []})
        entry["halvings"] = max(entry["halvings"], halvings)
        if rows is not None and [each, rows] not in entry["batches"]:
            entry["batches"].append([each, rows])
    return [entry | {"batches": sorted(entry["batches"])} for entry in models.values()]


def halved(folder: Path) -> dict[str, int]:
    """Return the most halvings of any model, by stage, from a project's records. Stages with none are left out."""
    place = folder / FOLDER
    records = {path.relative_to(place).with_suffix("").as_posix(): read_json(path) for path in place.rglob("*.json")}
    most = {stage: max(entry["halvings"] for entry in record) for stage, record in sorted(records.items())}
    return {stage: halvings for stage, halvings in most.items() if halvings}
