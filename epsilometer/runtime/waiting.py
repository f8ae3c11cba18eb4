"""Messages about waiting for a file's lock, which name the process that holds the lock."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilometer.runtime.progress import note

_SILENT = 1.0  # seconds of waiting before the message


@contextmanager
def waiting_for(path: Path, say: Callable[[str], None] = note) -> Iterator[None]:
    """Print which process holds the lock on a file, if the block needs more than a second to get the lock."""
    timer = threading.Timer(_SILENT, lambda: say(f"waiting for {path}, locked by {holder(path) or 'another process'}"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def holder(path: Path) -> str | None:
    """Return the process that has locked a file with flock, and its user if another runs it; None if unknown."""
    try:
        file = path.stat()
        here = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        with open("/proc/locks") as locks:
            rows = [line.split() for line in locks]
        number = next(int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == here)
        user = os.stat(f"/proc/{number}").st_uid
    except (OSError, StopIteration, IndexError, ValueError):
        return None
    return f"process {number}" + ("" if user == os.geteuid() else f" of user {_name(user)}")


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
