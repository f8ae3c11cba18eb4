"""Waiting for events, so that no test depends on the speed or the load of a machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any, AnyStr, TypeVar

import pytest

LAST_RESORT = 1200.0  # seconds; a test fails after them, and none passes because of them
T = TypeVar("T")


def wait_for(event: str, happened: Callable[[], T], runs: subprocess.Popen[Any] | None = None) -> T:
    """Return the first true value of `happened`. Fails at the last resort, and where the process `runs` ends before."""
    end = time.monotonic() + LAST_RESORT
    while True:
        ended = runs is not None and runs.poll() is not None  # before the look, so that a last act counts
        if value := happened():
            return value
        if ended:
            pytest.fail(f"{event}: the process ended before, with code {runs and runs.returncode}")
        if time.monotonic() > end:
            pytest.fail(f"{event}: did not happen within {LAST_RESORT:g} s")
        pause(0.02)


def finished(process: subprocess.Popen[AnyStr]) -> tuple[AnyStr, AnyStr]:
    """Return the output and the errors of a process once it has ended. Fails at the last resort."""
    try:
        return process.communicate(timeout=LAST_RESORT)
    except subprocess.TimeoutExpired as late:
        process.kill()
        pytest.fail(f"{process.args} did not end within {LAST_RESORT:g} s; it wrote {late.output!r} {late.stderr!r}")


def pause(seconds: float) -> None:
    """Let time pass between two looks, or before a kill at a random moment; no assertion may need its length."""
    time.sleep(seconds)
