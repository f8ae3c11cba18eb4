"""Stage resources: what each cell is, and what its mechanism reads, by content.

A mechanism may read nothing, and DVC's templates cannot leave a dependency out. So a cell depends on its record, which
has the same bytes until the cell or what it reads changes; stages that look at all cells depend on all records. What a
stage makes is recorded by DVC's own hash; a user's own file may change at any time, so this stage always runs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from epsilometer.core import tables
from epsilometer.pipeline import dvc_files
from epsilometer.project.code import hashes
from epsilometer.project.params import read as read_params

FOLDER = Path("data/resources")
SECTIONS = ("cells", "downstream", "ablations", "sweeps")


def main() -> None:
    """Write data/resources/<section>/<cell>.json: `files`, hash by path, and `cell`, its entry in params.yaml."""
    params = read_params()
    with dvc_files.dvc_pauses():
        outs = dvc_files.recorded("outs")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for section in SECTIONS:
        for name, cell in getattr(params, section).items():
            read = {} if cell.resource is None else _hashes(cell.resource, outs)
            record = {"files": read, "cell": cell.model_dump(mode="json")}
            tables.write_json(record, FOLDER / section / f"{name}.json")


def _hashes(resource: str, outs: dict[str, str]) -> dict[str, str]:
    path = Path(resource).as_posix()
    return {path: outs[path]} if path in outs else hashes([Path(resource)], Path().resolve())
