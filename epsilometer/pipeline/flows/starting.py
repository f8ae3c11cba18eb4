"""Wait until Prefect's server and the other processes of `make ui` answer, also on a slow machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS

from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows.processes import is_alive

_ANSWER = 5.0  # seconds to wait for an answer of the server


def answers(url: str) -> bool:
    """Return True if Prefect's server at this address is up."""
    try:
        return httpx.get(f"{url}/api/health", timeout=_ANSWER, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def wait(process: psutil.Process, part: str, is_up: Callable[[], bool], log: Path | None = None) -> None:
    """Return when `is_up` returns True. Raises UserError if the process ends first, or after Prefect's time limit."""
    seconds = PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value()
    until = time.monotonic() + seconds
    while not is_up():
        if not is_alive(process):
            end = f"; its log, {log}, ends with\n{log.read_text()[-2000:]}" if log else "; the reason is above"
            raise UserError(f"the {part} stopped before it was ready{end}", "EPS-P027")
        if time.monotonic() > until:
            advice = f"read its log, {log}, or run" if log else "run"
            raise UserError(
                f"the {part} was not ready after {seconds} s; {advice} again with more time, "
                f"{PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.name}={2 * seconds or 600}",
                "EPS-P028",
            )
        time.sleep(0.2)
