"""`dvc repro` for unattended use: one run at a time, and never on damaged files.

usage: epsilometer pipeline repro [arguments of dvc repro]

The command waits while another run of this project is active, repairs files that a killed run left incomplete, and
reports damaged files, which DVC makes again. The command ends with the process that started it.
"""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import logging
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from dvc.cli import main as dvc
from dvc.exceptions import DvcException
from dvc.repo import Repo

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.pipeline import INTERRUPTED, RUNNER
from epsilometer.pipeline.bookkeeping import (
    Say,
    remove_begun_copies,
    remove_damaged_runs,
    remove_idle_marks,
)
from epsilometer.pipeline.dvc_files import digest, lookup, settings
from epsilometer.pipeline.ending import KEPT, Ending, watch_disk
from epsilometer.pipeline.guard.parent import end_with_parent
from epsilometer.pipeline.opening import allow_ignored, locked, note, opened, without_memory
from epsilometer.pipeline.ordering import dependencies
from epsilometer.pipeline.side_by_side import SideBySide
from epsilometer.pipeline.unchanged_records import unchanged
from epsilometer.runtime.machine import cores
from epsilometer.runtime.scaling import THREADS
from epsilometer.runtime.unfinished import abandoned
from epsilometer.runtime.waiting import holder

PROJECT_FILE = "dvc.yaml"
_NAMED = 5  # maximum number of damaged files in a message; further ones are only counted
_PAUSE = 0.2  # seconds between two attempts to get the lock that another run holds


@contextmanager
def held(folder: Path, say: Say) -> Iterator[None]:
    """Lock the project for a run: wait for another run's end, then repair files. folder: the folder with dvc.lock.

    Does nothing inside a run that already has the lock. The kernel releases the lock when the process ends.
    """
    if RUNNER in os.environ:
        yield
        return
    allow_ignored(folder)
    repo = opened(say)
    path = Path(str(repo.tmp_dir), "epsilometer.lock")
    with repo, open(path, "a+", opener=partial(os.open, mode=0o600)) as lock:
        path.chmod(0o600)  # earlier versions made it readable for all users
        copies = Path(repo.dvc_dir, "cache")
        if Path(repo.cache.local.path).is_relative_to(copies):  # a cache elsewhere may be shared on purpose
            copies.mkdir(exist_ok=True)
            copies.chmod(0o700)
        if not _taken(lock):
            lock.seek(0)
            who, said = holder(path), lock.read().strip()  # the command of the last run
            if who is None or said.startswith(f"{who}:"):
                who = said
            say(f"another run of this project is under way ({who}); waiting for its end")
            while not _taken(lock):  # a blocking call would not notice Ctrl-C in another thread
                time.sleep(_PAUSE)
        lock.truncate(0)
        lock.write(f"process {os.getpid()}: {' '.join(sys.argv)}")
        lock.flush()
        repo = repair(repo, folder, say)
        repo.close()  # because other processes change its state during the run
        os.environ[RUNNER] = str(os.getpid())
        try:
            yield
        finally:
            del os.environ[RUNNER]
            with locked(repo, say):
                remove_begun_copies(Path(repo.root_dir), folder)
                put_in_order(folder / "dvc.lock")


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def repair(repo: Repo, folder: Path, say: Say) -> Repo:
    """Repair the files that DVC does not repair itself, while no run is active. Returns the reopened project.

    - An incomplete dvc.lock is moved aside, and damaged records in DVC's run cache are deleted. DVC then restores
      stages from this cache. A complete dvc.lock is sorted.
    - DVC's list of busy files is deleted if it is damaged, or if its processes have all ended.
    - Incomplete files of a killed stage, or of DVC, are deleted.
    - DVC's cache of file hashes is deleted, so that DVC reads all files again, also those in its cache of outputs.
    - Outputs that then differ from dvc.lock are reported.
    """
    with locked(repo, say):
        busy = remove_idle_marks(repo, say)
        _put_aside_half_written(repo, folder / "dvc.lock", say)
        remove_damaged_runs(repo, say)
        remove_begun_copies(Path(repo.root_dir), folder)
        put_in_order(folder / "dvc.lock")
        for begun in (folder / "data").rglob(".*.partial"):
            if abandoned(begun, int(begun.suffixes[-2][1:])):
                begun.unlink(missing_ok=True)
        for file in Path(repo.cache.local.path).glob("??/*"):
            if file.suffix == ".dir" and digest(str(file)) != file.parent.name + file.stem:
                say(f"{os.path.relpath(file)}, a listing in DVC's cache, is damaged; deleted")
                file.unlink()  # DVC would parse the listing before it checks the hash
                continue
            with suppress(PermissionError):  # another user's file, in a shared cache
                file.chmod(0o644)  # DVC reads writable files again
        if not busy:
            repo = without_memory(repo, say)
    _name_changed(repo, folder, say)
    return repo


def _name_changed(repo: Repo, folder: Path, say: Say) -> None:
    """Report outputs whose bytes, as DVC has just read them, differ from their records in dvc.lock."""
    try:
        status = repo.status([str(folder / PROJECT_FILE)])
    except DvcException:
        return  # DVC reports it later
    changes = [change for of_stage in status.values() for change in of_stage if isinstance(change, dict)]
    outs, deps = (
        dict.fromkeys(path for change in changes for path, how in change.get(kind, {}).items() if how == "modified")
        for kind in ("changed outs", "changed deps")
    )
    for path in [*outs][:_NAMED]:
        say(f"{path} differs from its record in dvc.lock (damaged, or from another run); its stage runs again")
    if len(outs) > _NAMED:
        say(f"and {len(outs) - _NAMED} more")
    for path in deps:  # otherwise Python would use the bytecode of the earlier file if size and time are equal
        if path.endswith(".py"):
            Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


def put_in_order(lock: Path) -> None:
    """Sort the stages of a dvc.lock by name. DVC writes them in the order they end, which git would show as changes."""
    text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    block = re.search(r"^stages:\n((?:  .*\n)*)", text, re.MULTILINE)
    if block is None:
        return
    stages = re.split(r"^(?=  \S)", block[1], flags=re.MULTILINE)
    ordered = text[: block.start(1)] + "".join(sorted(stages)) + text[block.end(1) :]
    if ordered != text:
        write_text(ordered, lock)


def _put_aside_half_written(repo: Repo, lock: Path, say: Say) -> None:
    try:
        repo.stage.load_all(str(lock.with_name(PROJECT_FILE)))
    except DvcException as error:
        if lock.name in str(error) and lock.is_file():
            aside = Path(str(repo.tmp_dir), "dvc.lock.damaged")
            os.replace(lock, aside)
            say(f"{error}; {lock.name} was moved to {os.path.relpath(aside)}, and a new one is written")


def main(arguments: Sequence[str]) -> None:
    """Run the command line; exits with the code of `dvc repro` if that fails.

    Independent stages run at the same time, unless options of `dvc repro` are given.
    """
    gc.set_threshold(100_000)  # searching DVC's long-lived objects for garbage took a tenth of the time
    end_with_parent()
    corrupted = logging.getLogger("dvc_data.hashfile.db")
    corrupted.setLevel(logging.DEBUG)  # the level at which DVC reports damaged files of its cache that it deletes
    logging.getLogger(f"{corrupted.name}.local").setLevel(logging.INFO)  # suppresses other messages of that level
    corrupted.addHandler(logging.StreamHandler())
    try:
        with held(Path(), note):
            first = [str(Path(sys.executable).parent), os.environ.get("PATH")]
            os.environ["PATH"] = os.pathsep.join(filter(None, first))  # stages must run this epsilometer
            os.environ[RUNNER] = str(os.getpid())  # replaces the number of a flow, so that stages end with this process
            if any(word.startswith("-") for word in arguments) or (at_once := _at_once()) == 1:
                code = _dvc(arguments)
            else:
                code = _side_by_side(arguments, at_once)
        if code:
            sys.exit(code)
    except (DvcException, UserError) as error:
        sys.exit(f"error: {error}")
    except BrokenPipeError:  # the output is closed: print no more, also at Python's end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (OSError, sqlite3.Error) as error:
        if (trouble := disk_trouble(error)) is None:
            raise
        sys.exit(f"error: {trouble}, {KEPT}")
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(130)


def _dvc(arguments: Sequence[str]) -> int:
    """Run `dvc repro` in this process. Returns its exit code; exits with one line if the disk is full.

    Raises KeyboardInterrupt if DVC or a stage was interrupted.
    """
    os.environ[RUNNER] = str(os.getpid())
    ending = Ending()
    for handler in logging.getLogger("dvc").handlers:  # DVC's other loggers have the same handlers
        handler.addFilter(ending)
    threading.Thread(target=watch_disk, name="watch-disk", daemon=True).start()
    code = int(dvc(["--wait-for-lock", "repro", *arguments]))
    if ending.interrupted:
        raise KeyboardInterrupt
    if code and ending.trouble:
        sys.exit(f"error: {ending.trouble}, {KEPT}")
    return code


def _side_by_side(targets: Sequence[str], at_once: int) -> int:
    """Bring these stages (by default all) and their dependencies up to date. Returns the exit code."""
    threading.Thread(target=watch_disk, name="watch-disk", daemon=True).start()
    with Repo(_wait_for_lock=True) as repo:
        try:
            with locked(repo):
                needs = dependencies(repo, targets or [PROJECT_FILE])
        except DvcException:
            needs = {}
        if len(needs) < 2:
            repo.close()
            return _dvc(targets)  # DVC also reports errors of the targets
        os.environ.setdefault(THREADS, str(max(1, cores() // at_once)))
        stages = {stage.addressing: stage for stage in repo.index.stages}

        def stale(stage: str) -> bool:
            try:
                with locked(repo):
                    return bool(stages[stage].changed()) and not unchanged(stages[stage])
            except DvcException:
                return True  # the process that runs the stage reports the error
            finally:
                repo.close()  # two processes must not share an open connection to DVC's cache

        return SideBySide(stale, _single).run(needs, at_once)


def _single(stage: str) -> int:
    """Bring one stage up to date in this process, which ends with the process that started it."""
    end_with_parent()
    return _dvc(["--single-item", stage])


def _at_once() -> int:
    """Return the number of stages that run at a time.

    Without a setting in params.yaml: one on a single core or if stages divide their own work, otherwise two.
    """
    runtime = lookup(settings(), "runtime") if Path("params.yaml").is_file() else {}
    stages, workers, ray = (lookup(runtime, name) for name in ("stages", "workers", "ray"))
    if stages is not None:
        return int(stages)
    return min(cores(), 2) if workers in (None, 1) and ray is None else 1


if __name__ == "__main__":
    main(sys.argv[1:])
