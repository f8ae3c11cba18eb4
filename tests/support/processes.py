"""Child processes of commands: listing them, and waiting for their end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import psutil

from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT, wait_for

OUTSIDE = {  # environment for commands outside of the repository
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
    "DVC_NO_ANALYTICS": "1",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(int(LAST_RESORT)),
    **{f"GIT_{who}_{what}": "someone@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the process's children, direct and indirect."""
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


def wait_for_end(processes: Collection[psutil.Process]) -> None:
    """Wait until all these processes have ended."""
    names = ", ".join(filter(None, map(command, processes)))
    wait_for(f"the end of {names}", lambda: not any(map(at_work, processes)))
