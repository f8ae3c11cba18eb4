"""The changes since a stage last ran: a line per file, package, setting or input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epsilometer.core.errors import unknown
from epsilometer.pipeline import dvc_files

_Paths = Mapping[str, list[str]]


def reasons(
    stage: str, records: Mapping[str, Any] | None = None, digest: Callable[[str], str] = dvc_files.digest
) -> list[str]:
    """Return the changes since a stage (`rewrite@queries-tem`) was recorded in dvc.lock; empty if it is up to date.

    records: the new records of stages `code` and `resources`, by file, if these are not yet written. Earlier records
    are read from DVC's cache. digest: a function that returns DVC's hash of a path; for several stages, pass a function
    that caches the hashes.
    """
    last = dvc_files.lock().get(stage)
    if last is None:
        return ["it has not run yet"]
    outs = {entry["path"]: entry["md5"] for entry in last.get("outs", []) if "md5" in entry}
    missing = [path for path in outs if not Path(path).exists()]
    damaged = [path for path in outs if path not in missing and digest(path) != outs[path]]
    lost = [f"output {path} is missing" for path in missing] + [f"output {path} has changed" for path in damaged]
    return inputs(stage, last, records, digest) + lost


def inputs(
    stage: str,
    last: Mapping[str, Any],
    records: Mapping[str, Any] | None = None,
    digest: Callable[[str], str] = dvc_files.digest,
) -> list[str]:
    """Return the changes of a stage's inputs since an entry of dvc.lock; empty for a stage that always runs."""
    if dvc_files.stages()[stage.partition("@")[0]].get("always_changed"):
        return []
    settings = dvc_files.settings()
    deps, params = dvc_files.listed(stage, settings)
    reasons = list(_changed_settings(last, settings, params))
    before = {os.path.normpath(entry["path"]): str(entry.get("md5")) for entry in last.get("deps", [])}
    for path in deps:
        if path not in before:
            reasons.append(f"input {path} is new")
        elif records is not None and path in records:
            if dvc_files.digest_of_record(records[path]) != before[path]:
                reasons += _changed_record(path, before[path], records[path], records.get(dvc_files.PATHS_OF_CODE))
        elif not Path(path).exists():
            reasons.append(f"input {path} is missing")
        elif digest(path) != before[path]:
            reasons += _changed(path, before[path])
    return reasons + [f"input {path} is no longer read" for path in before if path not in deps]


def addresses(stage: str | None) -> list[str]:
    """Return the addresses of a stage, given by name or by address. For None, return those of all stages of dvc.yaml.

    Raises UserError for an unknown stage.
    """
    settings = dvc_files.settings()
    every: dict[str, list[str]] = {}
    for name, body in dvc_files.stages().items():
        entries = dvc_files.entries(body, settings)
        every[name] = [name] if entries is None else [f"{name}@{key}" for key in entries]
    if stage is None:
        return [address for own in every.values() for address in own]
    if stage in every:
        return every[stage]
    stage_names = [address for own in every.values() for address in own]
    if stage not in stage_names:
        raise unknown("stage", stage, [*every, *stage_names])
    return [stage]


def _changed_settings(last: Mapping[str, Any], settings: Any, params: Sequence[str]) -> Iterator[str]:
    before = last.get("params", {}).get("params.yaml", {})
    for key in params:
        old, new = before.get(key), dvc_files.lookup(settings, key)
        if key not in before:
            yield f"setting {key} is new"
        elif old != new:
            yield from _differences(key, old, new)


def _differences(key: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the innermost settings that differ."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield f"setting {key}: {json.dumps(old)} before, {json.dumps(new)} now"
        return
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield from _differences(f"{key}.{name}", old.get(name), new.get(name))


def _changed(path: str, md5: str) -> list[str]:
    """Return the changes in a record or among the files of a folder; for other inputs, only the fact of a change."""
    if path.startswith("data/code/") or _is_resources(path):
        return _changed_record(path, md5, json.loads(Path(path).read_bytes()))
    if md5.endswith(".dir") and Path(path).is_dir() and (entries := dvc_files.cached(md5)) is not None:
        return _changed_folder(path, {entry["relpath"]: entry["md5"] for entry in entries})
    return [f"input {path} has changed"]


def _changed_record(path: str, md5: str, now: Mapping[str, Any], paths: _Paths | None = None) -> list[str]:
    """Return the changes of a record of `code` or `resources`.

    md5: the hash of the old record. paths: the files of code, by key.
    """
    if not _is_resources(path):
        return _changed_code(path, md5, now, dvc_files.paths_of_code() if paths is None else paths)
    old = dvc_files.cached(md5) or {}
    changed = [f"input {name} has changed" for name, _ in _pairs(old.get("files", {}), now["files"])]
    # Changed settings of a cell are already listed as settings of the stage; those of an excerpt are not.
    return [*changed, *_differences(now["of"], old.get("cell"), now["cell"])] if "of" in now else changed


def _changed_folder(folder: str, before: Mapping[str, str]) -> list[str]:
    """Return the changes of the files in a folder. before: their earlier hashes, by path within the folder."""
    reasons = []
    for name, (old, now) in _pairs(before, dvc_files.listing(folder)):
        path = f"{folder}/{name}"
        if old is None or now is None:
            reasons.append(f"input {path} is {'new' if old is None else 'missing'}")
            continue
        reasons += _changed(path, old)
        # A stage that reads all cells does not list their settings in dvc.yaml.
        if _is_resources(path) and (record := dvc_files.cached(old)) is not None:
            cell = ".".join(Path(path).with_suffix("").parts[2:])
            reasons += _differences(cell, record.get("cell"), json.loads(Path(path).read_bytes())["cell"])
    return reasons


def _is_resources(path: str) -> bool:
    """Return True if this is a record of a cell and its resources."""
    return path.startswith("data/resources/") and path.endswith(".json")


def _changed_code(path: str, md5: str, now: Mapping[str, Any], paths: _Paths) -> list[str]:
    """Return the changes of a record of code. The old record has no paths, so removed files are only counted."""
    if (old := dvc_files.cached(md5)) is None:
        return [f"code {path} has changed (the earlier record is no longer in DVC's cache)"]
    before, after = set(old["files"].values()), set(now["files"].values())
    edited = {key for key, own in now["files"].items() if own not in before}
    reasons = [f"file {name} has changed or is new" for name in _named(edited, paths)]
    if (gone := len(before - after) - len(after - before)) > 0:
        reasons.append(f"{gone} {'file is' if gone == 1 else 'files are'} no longer used")
    if not reasons and old["imports"] != now["imports"]:
        rewired = _named(now["files"].keys() - old["files"].keys(), paths)
        reasons = [f"the imports of file {name} have changed" for name in rewired] or [
            "imports between files have changed"
        ]
    for name, (was, is_now) in _pairs(old["packages"], now["packages"]):
        reasons.append(f"package {name}: {was or 'not used'} before, {is_now or 'not used'} now")
    for name, (was, is_now) in _pairs(old.get("device", {}), now.get("device", {})):
        reasons.append(f"device {name}: {was or 'none'} before, {is_now or 'none'} now")
    return reasons


def _named(keys: Iterable[str], paths: _Paths) -> list[str]:
    return sorted({path for key in keys for path in paths.get(key, [f"with the hash {key}"])})


def _pairs(old: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    """Yield the name of each entry that differs, with its values before and now."""
    for name in sorted({*old, *now}):
        if old.get(name) != now.get(name):
            yield name, (old.get(name), now.get(name))
