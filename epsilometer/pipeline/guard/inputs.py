"""Guard a stage's inputs, as dvc.yaml lists them: intact when the stage begins, and the same when it ends.

DVC takes a file for unchanged by its inode, size and time of change, links files from its cache without reading them,
and records what a stage read as it is *after* the stage has ended (treeverse/dvc#11058). So a flipped bit on the disk
would be read, and an input or a parameter that is edited while the stage runs would be recorded as what the stage had
read. Both raise an error here, and nothing is recorded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from epsilometer.core.errors import UserError
from epsilometer.pipeline.dvc_files import digest, dvc_pauses, files, keep_listing, listed, lookup, recorded, settings
from epsilometer.runtime import checksums

_NAMED = 5  # edited inputs in one message
RECORDS = ("data/code/", "data/resources/")  # of stages `code` and `resources`: lists of files that a stage reads


@contextmanager
def guarded() -> Iterator[None]:
    """Guard the work of the stage that DVC is running; a stage that is run by hand is not checked.

    Raises UserError at the start where an input has other bytes than were recorded for it, and at the end where an
    input or a parameter of the stage was edited meanwhile.
    """
    if "DVC_STAGE" not in os.environ:
        yield
        return
    before = settings()
    deps, params = listed(os.environ["DVC_STAGE"].rpartition(":")[2], before)
    deps += _named_in_records(deps, str(before.get("root", ".")))
    with dvc_pauses():
        outs = recorded("outs")
    for path, md5 in outs.items():
        if any(_overlap(path, dep) for dep in deps) and Path(path).exists() and digest(path) != md5:
            raise UserError(
                f"{path} is damaged: its bytes are not those that dvc.lock records for it; `make audit` (or "
                "`epsilometer repro`) finds all such files and makes them anew"
            )
    for dep in deps:
        checksums.check(Path(dep))
        if Path(dep).is_dir() and dep not in outs:
            keep_listing(dep, outs)
    seen = {file: _trace(file) for file in files(deps)}
    yield
    changed = [str(file) for file, trace in seen.items() if _trace(file) != trace]
    after = settings()
    changed += [f"params.yaml: {key}" for key in params if lookup(before, key) != lookup(after, key)]
    if changed:
        raise UserError(
            f"edited while this stage was running: {', '.join(changed[:_NAMED])}; what it made may be of the old or of "
            "the new, so it is not kept: run again"
        )


def _named_in_records(deps: Sequence[str], root: str) -> list[str]:
    """The files that the records among the deps name: code from the project's folder, resources from the run's."""
    paths = []
    for dep in deps:
        if dep.startswith(RECORDS) and Path(dep).is_file():
            named = json.loads(Path(dep).read_bytes())
            folder = root if dep.startswith("data/code/") else ""
            paths += [str(PurePosixPath(folder, path)) for path in named["files"]]
    return [path for path in paths if Path(path).exists()]


def _trace(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _overlap(first: str, other: str) -> bool:
    a, b = PurePosixPath(first), PurePosixPath(other)
    return a.is_relative_to(b) or b.is_relative_to(a)
