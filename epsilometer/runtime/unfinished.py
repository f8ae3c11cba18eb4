"""Recognition of unfinished files of killed processes, by the process number in their names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_CLOCKS = 2.0  # largest difference, in seconds, between the clocks of files and processes


def abandoned(path: Path, number: int) -> bool:
    """Return True if the process with this number, which wrote a file or folder, has ended.

    A zombie counts as ended. A process also counts as ended if its number now belongs to a later process.
    """
    with suppress(psutil.NoSuchProcess, FileNotFoundError):
        process = psutil.Process(number)
        began_before = process.create_time() < path.stat().st_mtime + _CLOCKS
        return process.status() == psutil.STATUS_ZOMBIE or not began_before
    return True
