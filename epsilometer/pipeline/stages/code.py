"""Stage code: record the code behind the results of every stage, and of every entry with its own components.

DVC cannot know what a user's own mechanism, attack, metric or generator imports. So this stage always runs, and the
other stages depend on its records. A record has the same bytes until a file or a package in it changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epsilometer.core import atomic
from epsilometer.core.component import IDENTIFICATION, PACKAGE, file
from epsilometer.core.study import studies
from epsilometer.pipeline import bodies, composing, dvc_files
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.params import read as read_params
from epsilometer.project import code
from epsilometer.project.remembered import remembered

FOLDER = Path("data/code")


def main() -> None:
    """Write data/code/<stage>.json, or data/code/<stage>/<entry>.json if entries have their own components.

    data/code/paths.json has the paths of the files in all records. No stage depends on paths.json, so a moved file
    makes no stage stale.
    """
    params = read_params()
    composing.check(params)
    shutil.rmtree(FOLDER, ignore_errors=True)
    with remembered(Path(params.root)):
        every = records(params)
    for path, record in every.items():
        atomic.write_json(record, path)


def records(params: Params) -> dict[Path, code.Record]:
    """Return the records of the stages in dvc.yaml and the record of paths, by the file that each is written to."""
    reading = code.Reading(Path(params.root).resolve())
    of_path, files_of = dict[Path, code.Code](), bodies()
    for stage, body in dvc_files.stages().items():
        if stage in ("code", "resources") or stage not in files_of:
            continue
        own, components = files_of[stage], composing.fragments()[stage].get("components")
        if components is not None and "foreach" in body:
            for key, entry in getattr(params, composing.fragments()[stage]["foreach"].strip("${}")).items():
                files = [file for kind in components for file in _files(params, kind, entry, key)]
                runs = stage != "embed" or key in params.audited  # stage `embed` skips data sets that no cell audits
                python = [own, *(file for file in files if file.suffix == ".py")] if runs else []
                # Some entries also read data, which DVC's templates cannot express.
                data = [file for file in files if file.suffix != ".py"]
                of_path[FOLDER / stage / f"{key}.json"] = reading.code(python, data)
        else:
            files = [file for kind in components or () for file in _files(params, kind, None)]
            of_path[FOLDER / f"{stage}.json"] = reading.code([own, *files])
    by_path = {path: each.record for path, each in of_path.items()}
    if params.runtime.ray and params.device != "cpu":  # each worker chooses its device
        there = {"device": {"kind": f"{params.device}, by each node of a Ray cluster"}}
        by_path = {path: record | (there if "device" in record else {}) for path, record in by_path.items()}
    return by_path | {Path(dvc_files.PATHS_OF_CODE): code.paths(of_path.values())}


def _files(params: Params, kind: str, entry: Any, key: str = "") -> Iterator[Path]:
    """Yield the files of an entry's components of one kind: Python code, and data of studies. key: the entry's name."""
    if kind == "generator":
        yield from [Path(params.path(entry.source))] if entry.source.endswith(".py") else []
    elif kind == "builder":
        yield PACKAGE / f"cells/building/{entry.section}.py"
    elif kind == "mechanism":
        yield params.code(entry)
    elif kind == "mechanisms":
        yield from dict.fromkeys(params.code(cell) for cell in params.cells.values())
    elif kind == "attacks":
        yield from (file(IDENTIFICATION, name) for name in params.attacks)
    elif kind == "question":
        from epsilometer.pipeline.asking import code as of_question  # loads the libraries of mechanisms and attacks

        yield from of_question(params, key)
    elif kind == "metrics":
        yield from (file(kind, name) for name in ("cosine", *params.utility.metrics))
    elif kind == "known loss":
        yield file("mechanisms", "randomized_response")
        yield file(IDENTIFICATION, "likelihood")
    elif kind == "sections":
        yield from (study.file(section) for study in studies() for section in study.sections)
    for study in studies():
        yield from study.components(kind, params, entry)
