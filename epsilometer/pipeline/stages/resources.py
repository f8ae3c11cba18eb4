"""Stage resources: record each cell, and the hashes of its mechanism's resources.

A mechanism may have no resource, and DVC's templates cannot omit a dependency. So a cell's stages depend on the cell's
record, which has the same bytes until the cell or its resource changes. Stages that read all cells depend on all
records. For a resource that a stage makes, the record has DVC's own hash. This stage always runs, because a user's own
file may change at any time.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from epsilometer.core import atomic
from epsilometer.pipeline import dvc_files
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.params import read as read_params
from epsilometer.project.code import hashes
from epsilometer.project.plain_words import FILE as PLAIN_WORDS
from epsilometer.project.plain_words import plain_words
from epsilometer.project.sections import MechanismEntry

FOLDER = Path("data/resources")


def main() -> None:
    """Write data/resources/<section>/<cell>.json: `files` (hash by path) and `cell` (its entry in params.yaml).

    Also writes excerpts of entries, for stages that depend only on some settings; their key `of` is the entry's place
    in params.yaml. Also writes each mechanism's description in plain words, for the report.
    """
    params = read_params()
    with dvc_files.dvc_pauses():
        every = records(params)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, record in every.items():
        atomic.write_json(record, path)


def records(params: Params) -> dict[Path, dict[str, Any]]:
    """Return the records of all cells and excerpts, by the file that each is written to."""
    outs = dvc_files.recorded("outs")
    by_path: dict[Path, dict[str, Any]] = {}
    for section, cells in params.sections_of_cells():
        for name, cell in cells.items():
            record = {"files": _hashes(cell, outs), "cell": cell.model_dump(mode="json")}
            by_path[FOLDER / section / f"{name}.json"] = record
    for name, setting, excerpt in params.excerpts():
        by_path[FOLDER / f"{name}.json"] = {"files": {}, "of": setting, "cell": excerpt}
    said = {entry.mechanism: plain_words(params.code(entry)) for _, entry in params.cells_by_place()}
    by_path[PLAIN_WORDS] = {"files": {}, "cell": said}
    return by_path


def _hashes(cell: MechanismEntry, outs: dict[str, str]) -> dict[str, str]:
    """Return the hashes of the resource, and of models in a mechanism's settings."""
    models = [value for value in cell.settings.values() if isinstance(value, str) and value.startswith("data/models/")]
    paths = [Path(path).as_posix() for path in (cell.resource, *models) if path is not None]
    of_stages = {path: outs[path] for path in paths if path in outs}
    # Full paths, because several folders may have a file of the same name, such as config.json.
    here = Path().resolve()
    return of_stages | hashes([Path(os.path.abspath(path)) for path in paths if path not in of_stages], here)
