"""Check DVC's own files before DVC relies on them: damaged ones are named and removed, and DVC makes them again.

Losing any of them costs only time. DVC itself would end in a traceback, or restore outputs that nobody has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import yaml
from diskcache import Timeout
from dvc.fs import LocalFileSystem
from dvc.repo import Repo
from dvc.rwlock import SCHEMA
from dvc.utils import dict_sha256
from dvc_data.hashfile.cache import Cache
from voluptuous import Invalid

from epsilometer.pipeline.dvc_files import parsed

Say = Callable[[str], None]
_HASH = {"version", "checksum", "size", "hash_info"}  # the columns of DVC's table of hashes
_BEGUN = re.compile(r".*\.[\w-]{22}\.tmp")  # the name that DVC gives to a file until it is complete
_CHANGES = (  # one change of each kind: they run triggers, whose text may be damaged as well
    "INSERT INTO Cache(key, raw, store_time, access_time, size) VALUES ('', 1, 0, 0, 1)",
    "UPDATE Cache SET size = 2, value = '' WHERE key = ''",
    "DELETE FROM Cache WHERE key = ''",
)
_NO_DAMAGE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM}


def remove_damaged_memory(site_cache: Path, say: Say) -> None:
    """Remove unreadable caches of hashes and links, before DVC opens the project, which reads them."""
    for token in (site_cache / "repo").glob("*/"):
        if not all(_is_readable(file.parent) for file in token.rglob("cache.db")):
            say(f"{token}, what DVC remembers of files, is damaged; deleted, and all files are read again")
            shutil.rmtree(token)


def remove_wrong_memory(repo: Repo, hashes: Mapping[str, str], say: Say) -> None:
    """Remove DVC's cache of hashes if it differs from these, just computed from the bytes of files, by path."""
    paths = [os.path.abspath(path) for path in hashes]
    remembered = repo.state.get_many(paths, LocalFileSystem(), {})
    by_path = {path: hash_info.value for path, _, hash_info in remembered if hash_info is not None}
    if any(by_path.get(path, md5) != md5 for path, md5 in zip(paths, hashes.values(), strict=True)):
        say("what DVC remembers of files is not what they hold; deleted, and all files are read again")
        repo.state.hashes.clear()


def remove_damaged_runs(repo: Repo, say: Say) -> None:
    """Remove records of earlier runs that do not match their names, because DVC would restore outputs from them."""
    for file in Path(repo.stage_cache.cache_dir).glob("??/*/*"):
        try:
            content = parsed(file.read_bytes())
            intact = dict_sha256(dict(content), exclude=["size", "nfiles"]) == file.name
        except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError):
            intact = False
        if not intact:
            say(f"{file}, DVC's record of an earlier run, is damaged; deleted")
            file.unlink()
            with suppress(OSError):  # the folder has other records
                file.parent.rmdir()


def remove_begun_copies(project: Path, folder: Path) -> None:
    """Remove files that DVC had begun to copy when the disk was full: they would count as part of an output folder.

    A cache outside the project is left alone, because others may be copying to it.
    """
    for place in (folder / "data", folder / "reports", project / ".dvc/cache"):
        for file in place.rglob("*.tmp"):
            if _BEGUN.fullmatch(file.name):
                file.unlink()


def remove_idle_marks(repo: Repo, say: Say) -> None:
    """Remove DVC's list of busy files if it is damaged, or if all processes in it have ended."""
    file = Path(str(repo.tmp_dir), "rwlock")
    try:
        lists = SCHEMA(json.loads(file.read_bytes()))
    except FileNotFoundError:
        return
    except (ValueError, Invalid):
        say(f"{file}, DVC's list of busy files, is damaged; deleted")
        file.unlink()
        return
    entries = [*lists["write"].values(), *(entry for readers in lists["read"].values() for entry in readers)]
    if not any(_runs(entry["pid"], entry["cmd"]) for entry in entries):
        file.unlink()


def _runs(number: int, words: str) -> bool:
    """Return True if that process still runs; DVC would also wait for a zombie, or for a reused number."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(number)
        said = " ".join(process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and words.partition(" ")[2] in said
    return False


def _is_readable(folder: Path) -> bool:
    """Return True if DVC can read and write the database in a folder, and use every row in it."""
    try:
        with closing(sqlite3.connect(folder / "cache.db")) as database:
            if database.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                return False
            rows = database.execute("SELECT key, value FROM Cache").fetchall()
            for change in _CHANGES:
                database.execute(change)
            database.rollback()
        Cache(str(folder)).close()  # this writes its settings
        return folder.name == "links" or all(isinstance(key, str) and _is_hash(value) for key, value in rows)
    except Timeout:
        return True
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_DAMAGE
    except Exception:  # its type depends on the place of the damage
        return False


def _is_hash(value: Any) -> bool:
    entry = json.loads(value)
    return entry.keys() == _HASH and len(entry["hash_info"]) == 1
