"""Check a stage's inputs in dvc.yaml: they must be intact at its start, and unchanged at its end.

DVC detects changes of a file by its inode, size and time of change, and links files from its cache without reading
them. So a stage could read a file that the disk has damaged. DVC also records a stage's inputs as they are *after* the
stage has ended (treeverse/dvc#11058). So after an edit during the stage, DVC would record the edited file, although the
stage may have read the earlier file. In both cases this module raises an error, and nothing is recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.pipeline.dvc_files import (
    digest,
    dvc_pauses,
    files,
    keep_listing,
    listed,
    lookup,
    outs_for_git,
    paths_of_code,
    recorded,
    settings,
)
from epsilometer.project import origin, times
from epsilometer.runtime import checksums, resuming

_NAMED = 5  # maximum number of edited inputs in a message
# Folders of the records of `code` and `resources`, which list files that a stage reads.
RECORDS = ("data/code/", "data/resources/")

Trace = tuple[int, int, int]
"""inode, size and time of change of a file"""


@contextmanager
def guarded() -> Iterator[None]:
    """Check the inputs of the stage that DVC runs, before and after a block. Without DVC, nothing is checked.

    Also records the stage's processor time, and the origin of outs that are stored in git. At the start, raises
    UserError for an input whose bytes differ from its record. At the end, raises UserError for an input or parameter
    that was edited during the block.
    """
    if "DVC_STAGE" not in os.environ:
        yield
        return
    before, address = settings(), os.environ["DVC_STAGE"].rpartition(":")[2]
    stage, _, entry = address.partition("@")
    compared, params = listed(address, before)
    deps = compared + _named_in_records(compared, str(before.get("root", ".")))
    with dvc_pauses():
        outs = recorded("outs")
    for path, md5 in outs.items():
        if any(_overlap(path, dep) for dep in deps) and Path(path).exists() and digest(path) != md5:
            raise UserError(
                f"{path} is damaged: its bytes differ from its record in dvc.lock; `make audit` (or "
                "`epsilometer pipeline repro`) restores all such files",
                "EPS-P034",
            )
    for dep in deps:
        checksums.check(Path(dep))
        if Path(dep).is_dir() and dep not in outs:
            keep_listing(dep, outs)
    seen = {file: _trace(file) for file in files(deps)}
    check = partial(_check_unedited, seen, {key: lookup(before, key) for key in params})
    with resuming.running(stage, entry, partial(_fingerprint, compared, params, before), check):
        yield
    check()
    times.write(address)
    if uncached := outs_for_git(address, before):
        origin.write(address, uncached)


def _check_unedited(seen: Mapping[Path, Trace | None], params: Mapping[str, Any]) -> None:
    """Raise UserError for a file or a setting that has changed since the stage began."""
    changed = [str(file) for file, trace in seen.items() if _trace(file) != trace]
    after = settings()
    changed += [f"params.yaml: {key}" for key, value in params.items() if lookup(after, key) != value]
    if changed:
        raise UserError(
            f"edited while this stage was running: {', '.join(changed[:_NAMED])}; its results may mix old and new "
            "inputs, and are discarded; run it again",
            "EPS-P035",
        )


def _fingerprint(deps: Sequence[str], params: Sequence[str], settings: dict[str, Any]) -> str:
    """Return a digest of everything that DVC compares: the bytes of the deps, and the settings of params.yaml.

    DVC ignores the order of settings, but the digest depends on the order: attacks run, and parts are numbered, in this
    order.
    """
    compared = {dep: digest(dep) for dep in deps}, {key: lookup(settings, key) for key in params}
    return hashlib.blake2b(json.dumps(compared).encode(), digest_size=16).hexdigest()


def _named_in_records(deps: Sequence[str], root: str) -> list[str]:
    """Return the existing files that are listed in records among the deps.

    Paths of code are relative to the project's folder, and paths of resources to the run's folder.
    """
    paths = []
    for dep in deps:
        if dep.startswith(RECORDS) and Path(dep).is_file():
            named = json.loads(Path(dep).read_bytes())["files"]
            if dep.startswith("data/code/"):
                lie = paths_of_code()
                paths += [str(PurePosixPath(root, path)) for key in named for path in lie.get(key, [])]
            else:
                paths += named
    return [path for path in paths if Path(path).exists()]


def _trace(file: Path) -> Trace | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _overlap(first: str, other: str) -> bool:
    a, b = PurePosixPath(first), PurePosixPath(other)
    return a.is_relative_to(b) or b.is_relative_to(a)
