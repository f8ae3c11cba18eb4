"""Which half-written files a killed process left behind: the name of each holds its process's number."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_CLOCKS = 2.0  # seconds that a file's time and a process's may differ by


def abandoned(path: Path, number: int) -> bool:
    """Whether the process of this number that wrote a file or folder has ended.

    A zombie has ended, and so has one whose number now belongs to a process that began later.
    """
    with suppress(psutil.NoSuchProcess, FileNotFoundError):
        process = psutil.Process(number)
        began_before = process.create_time() < path.stat().st_mtime + _CLOCKS
        return process.status() == psutil.STATUS_ZOMBIE or not began_before
    return True
