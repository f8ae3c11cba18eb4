"""Outputs of the default audit and of the leaderboard, from DVC's records; no stage runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.goldens.sections import read
from tests.goldens.values import of_parquet
from tests.support.places import ROOT

_LEFT_OUT = ("data/code", "data/resources", "data/report.html", "reports")
_CACHE = ROOT / ".dvc/cache/files/md5"


def results(of: str) -> dict[str, Any]:
    """Return the MD5 of each out of the audit or the leaderboard, and of the audit the values of its Parquet files.

    Where an MD5 is the frozen one, so are the values. Else they are read from DVC's cache; where they agree with the
    frozen values, so does the MD5. Without a frozen file, all are read from the cache: to freeze values anew after an
    audit in this folder, delete the file first.
    """
    if of == "leaderboard":
        return dict(_outs(ROOT / "runs/leaderboard/dvc.lock"))
    before_all = read("locks_audit")
    frozen = before_all.results if before_all else {}
    by_path: dict[str, Any] = {}
    for path, md5 in _outs(ROOT / "dvc.lock"):
        before = frozen.get(path)
        if before is not None and before["md5"] == md5:
            by_path[path] = before
        else:
            files = _files(path, md5)
            same = before is not None and files != {} and files == {k: v for k, v in before.items() if k != "md5"}
            by_path[path] = files | {"md5": before["md5"] if same else md5}
    return by_path


def _outs(lock: Path) -> Iterator[tuple[str, str]]:
    for stage in yaml.safe_load(lock.read_text(encoding="utf-8"))["stages"].values():
        for out in stage.get("outs", ()):
            if not out["path"].startswith(_LEFT_OUT):
                yield out["path"], out["md5"]


def _files(path: str, md5: str) -> dict[str, Any]:
    """Return the values of an out's Parquet files and the MD5 of its others, by name; nothing where no cache has it."""
    try:
        if not md5.endswith(".dir"):
            return {"values": of_parquet(_cached(md5))} if path.endswith(".parquet") else {}
        members = json.loads(_cached(md5).read_text(encoding="utf-8"))
        return {
            file["relpath"]: of_parquet(_cached(file["md5"])) if file["relpath"].endswith(".parquet") else file["md5"]
            for file in members
        }
    except FileNotFoundError:
        return {}


def _cached(md5: str) -> Path:
    return _CACHE / md5[:2] / md5[2:]
