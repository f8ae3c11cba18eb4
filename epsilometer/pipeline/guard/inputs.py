"""What a stage reads, as dvc.yaml lists it: intact when the stage begins, and the same when it ends.

DVC takes a file for unchanged by its inode, size and time of change, links files from its cache without reading them,
and records what a stage read as it is *after* the stage has ended (treeverse/dvc#11058). So a bit that flips on the
disk would be read, and an input or a parameter that is edited while the stage runs would be recorded as what the stage
had read. Both end here as an error, and nothing is recorded.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from epsilometer.core.errors import UserError
from epsilometer.runtime import checksums

IGNORED = ("__pycache__", "*.pyc", "*.partial")  # as in .dvcignore
GONE = (
    "is gone: was another commit checked out while the audit ran? What is finished is kept; run again when it is back"
)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast


@contextmanager
def guarded() -> Iterator[None]:
    """Around the work of the stage that DVC is running; a stage that is run by hand is not looked at.

    Raises UserError at the start where an input has other bytes than were recorded for it, and at the end where an
    input or a parameter of the stage was edited meanwhile.
    """
    if "DVC_STAGE" not in os.environ:
        yield
        return
    before = _settings()
    deps, params = listed(os.environ["DVC_STAGE"].rpartition(":")[2], before)
    with _dvc_pauses():
        outs = recorded("outs")
    for path, md5 in outs.items():
        if any(_overlap(path, dep) for dep in deps) and Path(path).exists() and digest(path) != md5:
            raise UserError(
                f"{path} is damaged: its bytes are not those that dvc.lock records for it; `make audit` (or `python -m "
                "epsilometer.pipeline.repro`) finds all such files and makes them anew"
            )
    for dep in deps:
        checksums.check(Path(dep))
    seen = {file: _trace(file) for file in files(deps)}
    yield
    changed = [str(file) for file, trace in seen.items() if _trace(file) != trace]
    after = _settings()
    changed += [f"params.yaml: {key}" for key in params if _lookup(before, key) != _lookup(after, key)]
    if changed:
        raise UserError(
            f"edited while this stage was running: {', '.join(changed[:5])}; what it made may be of the old or of the "
            "new, so it is not kept: run again"
        )


def listed(stage: str, settings: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The deps and params of a stage (`rewrite@queries-tem`) in dvc.yaml, with this parameter file's values."""
    name, _, key = stage.partition("@")
    entry, scope = _load(Path("dvc.yaml"))["stages"][name], dict(settings)
    if "foreach" in entry:
        over = _lookup(settings, entry["foreach"][2:-1])
        scope |= {"key": key, "item": over[key] if isinstance(over, dict) else key}
        entry = entry["do"]

    def filled(text: str) -> str:
        return re.sub(r"\$\{([^}]+)\}", lambda found: str(_lookup(scope, found[1].strip())), text)

    deps = [str(PurePosixPath(filled(dep))) for dep in entry.get("deps", [])]
    return deps, [filled(param) for param in entry.get("params", [])]


def recorded(kind: str, folder: Path = Path()) -> dict[str, str]:
    """What the dvc.lock in a folder records of stages' `deps` or `outs`: path to hash."""
    lock = folder / "dvc.lock"
    stages = _load(lock).get("stages", {}) if lock.is_file() else {}
    entries = (entry for stage in stages.values() for entry in stage.get(kind, []))
    return {str(PurePosixPath(folder, entry["path"])): entry["md5"] for entry in entries if "md5" in entry}


def digest(path: str) -> str:
    """DVC's hash of a file or folder, from the bytes that are there now."""
    place = Path(path)
    if not place.is_dir():
        return _md5(place)
    found = [{"md5": _md5(file), "relpath": file.relative_to(place).as_posix()} for file in files([path])]
    listing = json.dumps(sorted(found, key=lambda entry: entry["relpath"]), sort_keys=True)
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def files(paths: Iterable[str]) -> Iterator[Path]:
    """The files at and below these paths that count for DVC."""
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not _ignored(name)]
            yield from (Path(folder, name) for name in names if not _ignored(name))


def _ignored(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in IGNORED)


def _md5(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _trace(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _overlap(one: str, other: str) -> bool:
    a, b = PurePosixPath(one), PurePosixPath(other)
    return a.is_relative_to(b) or b.is_relative_to(a)


def _settings() -> dict[str, Any]:
    return _load(Path("params.yaml"))


def _load(path: Path) -> dict[str, Any]:
    try:
        return yaml.load(path.read_bytes(), _Loader) or {}
    except FileNotFoundError:
        raise UserError(f"{path} {GONE}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not readable YAML: {error}") from error


def _lookup(settings: Any, key: str) -> Any:
    """The value at a.b.c; None where there is none."""
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings


@contextmanager
def _dvc_pauses() -> Iterator[None]:
    """While no DVC of this project writes: dvc.lock is written in place, so half of it might be read.

    This stage's own DVC has let go of its lock for as long as the stage runs.
    """
    path = Path(os.environ.get("DVC_ROOT", "."), ".dvc/tmp/lock")
    if not path.is_file():
        yield
        return
    with path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
