"""Run programs within a Prefect run, with their output in the run's log and their progress as an artifact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.utilities.urls import url_for

from epsilometer.pipeline.flows.connection import Server
from epsilometer.report.origin import RUN
from epsilometer.runtime.progress import parse

_LAST_LINES = 10  # lines of output in the message of a failure
_running: set[subprocess.Popen[str]] = set()
_stopped = threading.Event()
_STARTING = threading.Lock()


@contextmanager
def stopped_with_this() -> Iterator[None]:
    """Stop the running programs if an exception leaves this block, because the flow would wait for their end."""
    _stopped.clear()
    try:
        yield
    except BaseException:
        with _STARTING:
            _stopped.set()
            for process in _running:
                process.terminate()
        raise


def follow(command: Sequence[str], name: str, folder: str = ".") -> str | None:
    """Run this Python with arguments in a folder, and show its output. Returns the message of a failure, else None."""
    with _STARTING:
        if _stopped.is_set():
            return f"{name} was not started: the flow was stopped"
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment(),
        )
        _running.add(process)
    with process:
        assert process.stdout is not None
        last = show(process.stdout, name)
    _running.discard(process)
    return "\n".join([f"{name} failed; its last lines:", *last]) if process.returncode else None


def show(output: Iterable[str], name: str) -> list[str]:
    """Log a program's output line by line as it comes, and return its last lines.

    From the first line that `epsilometer.runtime.progress` can parse, an artifact shows the progress. This artifact has
    no key, because Prefect's page of artifacts is for results.
    """
    log, last, artifact, server = get_run_logger(), deque[str](maxlen=_LAST_LINES), None, Server()
    takes = True
    for line in filter(None, map(str.rstrip, output)):
        log.info("%s", line)
        last.append(line)
        if takes and (progress := parse(line)) and server.answers():
            try:
                artifact = _shown(artifact, 100 * progress.done / progress.total, f"{name}: {progress}")
            except (httpx.HTTPError, PrefectException):
                takes = False  # Prefect tried for half a minute or more; the work goes on without progress
    return [*last]


def environment() -> dict[str, str]:
    """Return the program's environment: this Python and project, unbuffered output, and the run's name."""
    first = {"PATH": Path(sys.executable).parent, "PYTHONPATH": Path(__file__).resolve().parents[3]}
    paths = {name: os.pathsep.join(filter(None, [str(path), os.environ.get(name)])) for name, path in first.items()}
    return os.environ | paths | {"PYTHONUNBUFFERED": "1", RUN: json.dumps(run())}


def run() -> dict[str, str | None]:
    """Return the flow run that contains this process: name, id, and URL."""
    return {"name": flow_run.name, "id": flow_run.id, "url": flow_run.id and url_for("flow-run", flow_run.id)}


def _shown(artifact: UUID | None, percent: float, words: str) -> UUID:
    if artifact is None:
        return cast(UUID, create_progress_artifact(percent, description=words))
    update_progress_artifact(artifact, percent, words)
    return artifact
