"""Waiting for events, so that no test depends on the speed or the load of a machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any, AnyStr, TypeVar

import pytest

LAST_RESORT = 1200.0  # seconds before a test fails; no test passes because of this time
T = TypeVar("T")


def wait_for(event: str, happened: Callable[[], T], runs: subprocess.Popen[Any] | None = None) -> T:
    """Return the first true value of `happened`. Fails after LAST_RESORT, or if the process `runs` ends first."""
    end = time.monotonic() + LAST_RESORT
    while True:
        ended = runs is not None and runs.poll() is not None  # first, so that an event before the end counts
        if value := happened():
            return value
        if ended:
            pytest.fail(f"{event}: the process ended before, with code {runs and runs.returncode}")
        if time.monotonic() > end:
            pytest.fail(f"{event}: did not happen within {LAST_RESORT:g} s")
        pause(0.02)


def finished(process: subprocess.Popen[AnyStr]) -> tuple[AnyStr, AnyStr]:
    """Wait for the end of a process, and return its output and errors. Fails after LAST_RESORT."""
    try:
        return process.communicate(timeout=LAST_RESORT)
    except subprocess.TimeoutExpired as late:
        process.kill()
        pytest.fail(f"{process.args} did not end within {LAST_RESORT:g} s; it wrote {late.output!r} {late.stderr!r}")


def pause(seconds: float) -> None:
    """Sleep between two checks, or before a kill at a random moment. No assertion may depend on the time."""
    time.sleep(seconds)
