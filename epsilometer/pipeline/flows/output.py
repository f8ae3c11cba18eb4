"""Show a program below a Prefect run: its output in the run's log, its progress as the run's artifact."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.utilities.urls import url_for

from epsilometer.report.origin import RUN
from epsilometer.runtime.progress import parse

_LAST_LINES = 10  # lines that a failure repeats
_CONNECT = 10.0  # seconds for the server to accept a connection


class Server:
    """Prefect's server, as this process knows it. `str` of it is the address."""

    def __init__(self) -> None:
        self._url = httpx.URL(str(get_client(sync_client=True).api_url))

    def __str__(self) -> str:
        return str(self._url)

    def answers(self) -> bool:
        """Return True if the server accepts connections. Check this first: Prefect tries for half a minute or more."""
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        try:
            socket.create_connection((self._url.host, port), _CONNECT).close()
        except OSError:
            return False
        return True


def show(output: Iterable[str], name: str) -> list[str]:
    """Log a program's output line by line as it comes, and return its last lines.

    From the first line that `epsilometer.runtime.progress` can parse, an artifact shows the progress. It has no key,
    because Prefect's page of artifacts is for results.
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
                takes = False  # after half a minute or more; the work goes on without progress
    return [*last]


def environment() -> dict[str, str]:
    """The program's environment: this `python`, with this project importable; unbuffered output; the run's name."""
    first = {"PATH": Path(sys.executable).parent, "PYTHONPATH": Path(__file__).resolve().parents[3]}
    paths = {name: os.pathsep.join(filter(None, [str(path), os.environ.get(name)])) for name, path in first.items()}
    return os.environ | paths | {"PYTHONUNBUFFERED": "1", RUN: json.dumps(run())}


def run() -> dict[str, str | None]:
    """The flow run that contains this process: name, id, and URL."""
    return {"name": flow_run.name, "id": flow_run.id, "url": flow_run.id and url_for("flow-run", flow_run.id)}


def _shown(artifact: UUID | None, percent: float, words: str) -> UUID:
    if artifact is None:
        return cast(UUID, create_progress_artifact(percent, description=words))
    update_progress_artifact(artifact, percent, words)
    return artifact
