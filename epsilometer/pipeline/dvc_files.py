"""The content of dvc.yaml and dvc.lock, read without DVC, which takes a second to load."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from epsilometer.core import atomic, yaml_text
from epsilometer.core.errors import UserError
from epsilometer.runtime.waiting import waiting_for

IGNORED = ("__pycache__", "*.pyc", "*.partial")  # as in .dvcignore
_CACHE = Path(".dvc/cache/files/md5")
PATHS_OF_CODE = "data/code/paths.json"
GONE = (
    "does not exist: was another commit checked out while the audit ran? Results of finished stages are kept; restore "
    "it and run again"
)
_TEXTS = 4  # number of cached texts: dvc.lock, dvc.yaml, params.yaml, and an earlier version of one of them


def settings() -> dict[str, Any]:
    """Return the content of params.yaml, without defaults."""
    return _load(Path("params.yaml"))


def stages(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return the stages in a folder's dvc.yaml by name, with their placeholders."""
    return dict(_load(folder / "dvc.yaml")["stages"])


def entries(stage: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the entries that a stage runs for, by key, from a section of params.yaml or from dvc.yaml itself.

    Returns None for a stage that runs once.
    """
    over = stage.get("foreach")
    if isinstance(over, str):
        over = lookup(settings, over[2:-1]) or {}
    return dict(over) if isinstance(over, Mapping) else None if over is None else {key: key for key in over}


def listed(stage: str, settings: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the deps and params of a stage (`rewrite@queries-tem`) in dvc.yaml, filled in with these settings."""
    entry, filled = _entry(stage, settings)
    deps = dict.fromkeys(os.path.normpath(filled(dep)) for dep in entry.get("deps", []))
    return [*deps], [filled(param) for param in entry.get("params", [])]


def outs(stage: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the paths of all outs of a stage in dvc.yaml, filled in with these settings."""
    entry, filled = _entry(stage, settings)
    every = [*entry.get("outs", []), *entry.get("metrics", []), *entry.get("plots", [])]
    return [os.path.normpath(filled(out if isinstance(out, str) else next(iter(out)))) for out in every]


def outs_for_git(stage: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the outs of a stage in dvc.yaml that git keeps instead of DVC's cache."""
    entry, filled = _entry(stage, settings)
    flagged = (out for out in entry.get("outs", []) if isinstance(out, Mapping))
    return [filled(path) for out in flagged for path, flags in out.items() if not flags.get("cache", True)]


def _entry(stage: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str], str]]:
    """Return the definition of a stage in dvc.yaml, and a function that fills in its placeholders."""
    name, _, key = stage.partition("@")
    entry, scope = stages()[name], dict(settings)
    if (each := entries(entry, settings)) is not None:
        scope |= {"key": key, "item": each[key]}
        entry = entry["do"]

    def filled(text: str) -> str:
        return re.sub(r"\$\{([^}]+)\}", lambda match: str(lookup(scope, match[1].strip())), text)

    return entry, filled


def lock(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """Return the record of each stage in the dvc.lock of a folder, by name; empty without such a file."""
    file = folder / "dvc.lock"
    return dict(_load(file).get("stages", {})) if file.is_file() else {}


def recorded(kind: str, folder: Path = Path()) -> dict[str, str]:
    """Return the hashes that the dvc.lock in a folder records for stages' `deps` or `outs`, by path.

    Leaves out stages and entries that no longer exist, because their outs may now belong to other stages.
    """
    settings = _load(folder / "params.yaml") if (folder / "params.yaml").is_file() else {}
    keys = {name: entries(stage, settings) for name, stage in stages(folder).items()}
    hashes: dict[str, str] = {}
    for address, record in lock(folder).items():
        name, _, key = address.partition("@")
        if name in keys and key in (keys[name] or (key,)):
            of_stage = (entry for entry in record.get(kind, []) if "md5" in entry)
            hashes |= {str(PurePosixPath(folder, entry["path"])): str(entry["md5"]) for entry in of_stage}
    return hashes


def lookup(settings: Any, key: str) -> Any:
    """Return the value at a.b.c; None if it does not exist."""
    for part in key.split("."):
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings


def digest(path: str) -> str:
    """Return DVC's hash of a file or folder, from its present bytes."""
    return digests(path)[path]


def digest_of_record(record: Any) -> str:
    """Return DVC's hash of the file that `atomic.write_json` writes for a record."""
    return hashlib.md5(f"{json.dumps(record, indent=1)}\n".encode(), usedforsecurity=False).hexdigest()


def digests(path: str) -> dict[str, str]:
    """Return DVC's hash of a file or folder, and of each file in the folder, by path."""
    if not Path(path).is_dir():
        return {path: _md5(Path(path))}
    inside = listing(path)
    return {path: _hash(_written(inside)), **{os.path.join(path, name): md5 for name, md5 in inside.items()}}


def listing(folder: str) -> dict[str, str]:
    """Return the hash of each file that DVC counts in a folder, by its path relative to the folder."""
    return {file.relative_to(folder).as_posix(): _md5(file) for file in files([folder])}


def cached(md5: str) -> Any:
    """Return the record or folder listing with this hash from DVC's cache; None if it is missing."""
    file = _place(md5)
    return json.loads(file.read_bytes()) if file is not None and file.is_file() else None


def paths_of_code() -> dict[str, list[str]]:
    """Return the paths of the files in records of code, by key in a record; empty before stage `code` has run."""
    file = Path(PATHS_OF_CODE)
    return dict(json.loads(file.read_bytes())) if file.is_file() else {}


def keep_listing(folder: str, outs: Mapping[str, str]) -> None:
    """Write a listing of the recorded outs in a folder to DVC's cache, as DVC does for an out that is a folder.

    dvc.lock records one hash for a folder that a stage reads; the listing lets `why` name the changed file.
    """
    hashes: dict[str, str] = {}
    for path, md5 in outs.items():
        entries = (cached(md5) or []) if md5.endswith(".dir") else [{"relpath": "", "md5": md5}]
        for place, entry in ((PurePosixPath(path, entry["relpath"]), entry) for entry in entries):
            if place.is_relative_to(folder):
                hashes[place.relative_to(folder).as_posix()] = entry["md5"]
    written = _written(hashes)
    if hashes and (file := _place(_hash(written))) is not None and not file.exists():
        atomic.write_text(written, file)


def files(paths: Iterable[str]) -> Iterator[Path]:
    """Yield the files that DVC counts, at these paths and below."""
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not _ignored(name)]
            yield from (Path(folder, name) for name in names if not _ignored(name))


@contextmanager
def dvc_pauses() -> Iterator[None]:
    """Keep DVC from writing in this project during a block, because dvc.lock may be incomplete during a write.

    The wait for DVC's lock is short even during a run, because DVC releases the lock while a stage runs.
    """
    path = Path(os.environ.get("DVC_ROOT", "."), ".dvc/tmp/lock")
    if not path.is_file():
        yield
        return
    with path.open("rb") as stream:
        with waiting_for(path):
            fcntl.flock(stream, fcntl.LOCK_SH)
        yield


def _load(path: Path) -> dict[str, Any]:
    try:
        return parsed(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} {GONE}", "EPS-P023") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not readable YAML: {error}", "EPS-P024") from error


@lru_cache(_TEXTS)
def parsed(text: bytes) -> dict[str, Any]:
    """Return the content of a YAML text. The content is cached, so callers must not change it."""
    return yaml_text.load(text) or {}


def _written(listing: Mapping[str, str]) -> str:
    """Return the text of a listing, in DVC's format."""
    return json.dumps([{"md5": md5, "relpath": name} for name, md5 in sorted(listing.items())], sort_keys=True)


def _hash(written: str) -> str:
    return hashlib.md5(written.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _place(md5: str) -> Path | None:
    """Return the path of the content with this hash in the project's cache; None outside of a project."""
    here = Path.cwd()
    project = next((folder for folder in (here, *here.parents) if (folder / ".dvc").is_dir()), None)
    return project and project / _CACHE / md5[:2] / md5[2:]


def _ignored(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in IGNORED)


def _md5(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
