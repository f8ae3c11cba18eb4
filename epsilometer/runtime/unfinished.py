"""Find half-written files of a killed process, whose number is in each file's name."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_CLOCKS = 2.0  # largest difference in seconds between a file's clock and a process's


def abandoned(path: Path, number: int) -> bool:
    """Return True if the process of this number that wrote a file or folder has ended.

    A zombie counts as ended, and so does a process whose number now belongs to one that began later.
    """
    with suppress(psutil.NoSuchProcess, FileNotFoundError):
        process = psutil.Process(number)
        began_before = process.create_time() < path.stat().st_mtime + _CLOCKS
        return process.status() == psutil.STATUS_ZOMBIE or not began_before
    return True
