"""The connection of this process's flows to Prefect's server, which already runs or is started for this process.

This module also ends the process when the server is gone; Prefect by itself would wait for minutes.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import httpx
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL
from prefect.states import State

from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows import temporary
from epsilometer.pipeline.flows.listening import is_own
from epsilometer.pipeline.flows.pages import HOSTS

_CONNECT = 10.0  # seconds for the server to accept a connection
_GRACE = 7.0  # seconds to report an end requested by SIGTERM
_GONE = 20.0  # seconds without a connection to the server before it counts as gone
_PAUSE = 1.0  # seconds between checks of the server
_reported = threading.Event()


class Server:
    """The Prefect server that this process's settings name. `str()` returns the server's address."""

    def __init__(self) -> None:
        self._url = httpx.URL(str(get_client(sync_client=True).api_url))

    def __str__(self) -> str:
        return str(self._url)

    def answers(self) -> bool:
        """Return True if the server accepts connections. Ask this before requests, which Prefect retries for 30 s."""
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        try:
            socket.create_connection((self._url.host, port), _CONNECT).close()
        except OSError:
            return False
        return True


def server_or_exit() -> subprocess.Popen[bytes] | None:
    """Return the result of `server`. If it raises UserError, print the reason and end this process with exit code 2."""
    try:
        return server()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def server() -> subprocess.Popen[bytes] | None:
    """Connect to Prefect's server at PREFECT_API_URL; without this setting, start a server for this process.

    Returns the process that ends the started server (`temporary.start`); None if no server was started.
    Raises UserError if no server answers at that address, if the server is another user's, or if a new server does not
    start. The project's flows log in to the server with the project's secret. Neither this secret nor a run is ever
    sent to another user's server.
    """
    url = urlsplit(PREFECT_API_URL.value() or "")
    if not url.hostname:
        return temporary.start()
    if url.hostname not in HOSTS or is_own(url.port or 80):
        with get_client(sync_client=True) as client:
            if client.api_healthcheck() is None:
                return None
    raise UserError(
        f"no server of this project answers at {url.geturl()}; start one with `make ui`, or run `make ui-stop` and "
        "unset PREFECT_API_URL, so that the flow starts its own (`make audit` needs no server)",
        "EPS-P025",
    )


def has_reported(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """End the watch of the server: a hook that Prefect calls at the end of a flow."""
    _reported.set()


def watch_server() -> Callable[[int], None]:
    """Watch the server from now on until this run's end is reported.

    Call the returned function with the exit code when the stages have ended. From then on, this process ends with that
    code if the server has been gone for _GONE seconds; Prefect would try for minutes to reach the server. A slow server
    does not end the process.
    """
    global _reported
    _reported.set()  # ends the watch of an earlier run
    _reported = reported = threading.Event()
    code: int | None = None
    server = Server()

    def ended(exit_with: int) -> None:
        nonlocal code
        code = exit_with

    def watch() -> None:
        seen = time.monotonic()
        while not reported.wait(_PAUSE):
            if server.answers():
                seen = time.monotonic()
            elif code is not None and time.monotonic() - seen >= _GONE:
                said = f"Prefect's server at {server} no longer answers: it does not record the end of this run, "
                print(said + "but its results are kept", file=sys.stderr, flush=True)
                os._exit(code)

    threading.Thread(target=watch, name="end-without-server", daemon=True).start()
    return ended


def end_soon_after_sigterm() -> None:
    """End this process at most _GRACE seconds after SIGTERM.

    If its server is gone, Prefect's handler tries for minutes to report the end. Stages end with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    prefects = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        last = threading.Timer(_GRACE, os._exit, [128 + number])
        last.daemon = True
        last.start()
        if callable(prefects):
            prefects(number, frame)
        else:
            sys.exit(128 + number)

    signal.signal(signal.SIGTERM, handle)
