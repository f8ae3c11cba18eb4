"""Check DVC's own files before DVC reads them: damaged files are reported and removed, and DVC makes them again.

Losing one of these files costs only time. Without the check, DVC would end in a traceback, or restore outputs that no
longer exist.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml
from dvc.repo import Repo

from epsilometer.pipeline.dvc_files import parsed

Say = Callable[[str], None]
_BEGUN = re.compile(r".*\.[\w-]{22}\.tmp")  # DVC's name for an incomplete file
_BESIDE_HASHES = {"size", "nfiles"}  # entries of a record that its name, a hash, does not cover


def remove_damaged_runs(repo: Repo, say: Say) -> None:
    """Remove each record of an earlier run whose content does not match its name, a hash of the content.

    DVC would restore outputs from such a record.
    """
    for file in Path(repo.stage_cache.cache_dir).glob("??/*/*"):
        try:
            intact = _name(parsed(file.read_bytes())) == file.name
        except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError):
            intact = False
        if not intact:
            say(f"{file}, DVC's record of an earlier run, is damaged; deleted")
            file.unlink()
            with suppress(OSError):  # the folder has other records
                file.parent.rmdir()


def remove_begun_copies(project: Path, folder: Path) -> None:
    """Remove files that DVC had not finished copying when the disk was full.

    These files would count as parts of outputs. A cache outside the project is left alone, because other processes may
    be copying to it.
    """
    for place in (folder / "data", folder / "reports", project / ".dvc/cache"):
        for file in place.rglob("*.tmp"):
            if _BEGUN.fullmatch(file.name):
                file.unlink()


def remove_idle_marks(repo: Repo, say: Say) -> bool:
    """Remove DVC's list of busy files if it is damaged, or if all processes in it have ended.

    Returns True if the list stays, because a plain `dvc repro` is running a stage.
    """
    file = Path(str(repo.tmp_dir), "rwlock")
    try:
        processes = [*_busy(json.loads(file.read_bytes()))]
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, KeyError, AttributeError):
        say(f"{file}, DVC's list of busy files, is damaged; deleted")
        file.unlink()
        return False
    if any(_runs(number, words) for number, words in processes):
        return True
    file.unlink()
    return False


def _busy(lists: Any) -> Iterator[tuple[int, str]]:
    """Yield the number and command of each process in DVC's list of busy files. Raises if the list has another form."""
    if not lists.keys() <= {"read", "write"}:
        raise ValueError(f"unknown lists {[*lists]}")
    for entry in [
        *lists.get("write", {}).values(),
        *(entry for own in lists.get("read", {}).values() for entry in own),
    ]:
        if entry.keys() != {"pid", "cmd"} or not (type(entry["pid"]) is int and type(entry["cmd"]) is str):
            raise ValueError("an entry is not a number and a command")
        yield entry["pid"], entry["cmd"]


def _runs(number: int, words: str) -> bool:
    """Return True if the process with this number still runs this command.

    DVC would also wait for a zombie, or for another process that got the same number.
    """
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(number)
        said = " ".join(process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and words.partition(" ")[2] in said
    return False


def _name(record: Any) -> str:
    """Return the name that DVC gives to a record of a run: a hash of its content."""

    def compared(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: compared(part) for key, part in value.items() if key not in _BESIDE_HASHES}
        return [*map(compared, value)] if isinstance(value, list) else value

    return hashlib.sha256(json.dumps(compared(dict(record)), sort_keys=True).encode()).hexdigest()
