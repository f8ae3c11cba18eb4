"""Prefect tasks that bring DVC stages up to date. DVC alone decides what is stale."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dvc.dvcfile import StageFileDoesNotExistError
from dvc.exceptions import DvcException
from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from epsilometer.core.errors import UserError
from epsilometer.pipeline.dvc_files import GONE
from epsilometer.pipeline.flows.output import environment, show
from epsilometer.pipeline.opening import opened

_ONE_READER = threading.Lock()  # DVC does not promise to be thread-safe
_running: set[subprocess.Popen[str]] = set()
_stopped = threading.Event()
_STARTING = threading.Lock()


@contextmanager
def stopped_with_this() -> Iterator[None]:
    """Stop the running stages if an exception leaves this block, because a flow waits for them before it ends."""
    _stopped.clear()
    try:
        yield
    except BaseException:
        with _STARTING:
            _stopped.set()
            for process in _running:
                process.terminate()
        raise


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="{stage}")
def reproduce(stage: str) -> State[Any]:
    """Bring one stage up to date, by its address (`embed@queries`, `runs/atis/dvc.yaml:report`).

    Its dependencies must be up to date. Ends Cached, Reproduced, or Failed with the last lines of the output; a direct
    call raises the failure.
    """
    try:
        if not stale(stage):
            return Completed(name="Cached")
    except StageFileDoesNotExistError as error:
        return Failed(message=f"{stage}: {error.file} {GONE}")
    except (DvcException, UserError) as error:
        return Failed(message=f"{stage}: {error}")
    command = [sys.executable, "-m", "epsilometer.pipeline.repro", "--single-item", stage]
    with _STARTING:
        if _stopped.is_set():
            return Failed(message=f"{stage} was not started: the flow was stopped")
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment(),
        )
        _running.add(process)
    with process:
        assert process.stdout is not None
        last = show(process.stdout, stage)
    _running.discard(process)
    if process.returncode:
        return Failed(message="\n".join([f"{stage} failed; its last lines:", *last]))
    return Completed(name="Reproduced")


def stage(name: str) -> Task[..., State[Any]]:
    """Returns the Prefect task of a stage in dvc.yaml; call it with the name of an entry if the stage has several.

    In your own flow: `rewrite("queries-tem")`, or `rewrite("atis-tem", folder="runs/atis")` for a profile's run.
    """

    @task(name=name, cache_policy=NO_CACHE, persist_result=False)
    def bring_up_to_date(entry: str | None = None, folder: str = ".") -> State[Any]:
        file = "" if folder == "." else f"{folder}/dvc.yaml:"
        return reproduce.fn(f"{file}{name}@{entry}" if entry else file + name)

    return bring_up_to_date


def stale(stage: str) -> bool:
    """Return True if DVC would run the stage now; its dependencies may have just been made with the same bytes.

    Within this process that takes a quarter of a second, most of it to read dvc.lock; starting `dvc` takes more than a
    second, which an audit of unchanged inputs would pay for each of its stages. Everything that changes files is still
    left to the command line.
    """
    # Another stage's `dvc repro` holds the project's lock while it hashes: wait, as `--wait-for-lock` does.
    with _ONE_READER, opened() as repo:
        return bool(repo.status(targets=[stage]))
