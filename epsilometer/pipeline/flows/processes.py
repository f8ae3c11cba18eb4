"""Check if a process is running, and end processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil

_GRACE = 10.0  # seconds between SIGTERM and SIGKILL


def is_alive(process: psutil.Process) -> bool:
    """Return True if a process runs. An ended process that was not reaped does not count."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask processes to end, then kill the remaining ones."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=_GRACE)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=_GRACE)
