"""Processes that others started, and waiting for what they do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import psutil

LONGEST = 600.0  # seconds that anything here may take on a busy machine


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that it has started, and those that they have."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def at_work(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def wait(what: Callable[[], bool], seconds: float = LONGEST) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False
