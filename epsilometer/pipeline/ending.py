"""End a run of DVC with one line after Ctrl-C or on a full disk. DVC itself would print many lines, or wait forever."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import sys
import time
from pathlib import Path

import psutil
from dvc.repo import Repo

from epsilometer.core.errors import disk_trouble
from epsilometer.pipeline.bookkeeping import remove_begun_copies

KEPT = "then run again; results of finished stages are kept"  # end of the message about a full disk
_STOPPED = re.compile(r"exited with (130|-2)$")  # exit codes after Ctrl-C: 130 by `guard.entry`, -2 before it starts
_PATIENCE = 10.0  # most seconds for which DVC may wait for space on a full disk
_ROOM = 1 << 18  # bytes; with less free space a database cannot grow, so the disk counts as full
_PAUSE = 0.2  # seconds between checks of the disk


class Ending(logging.Filter):
    """Records interruptions of DVC or a stage, and errors of the disk, and suppresses DVC's messages about them.

    interrupted: True after an interruption; trouble: the message about the disk, else None.
    """

    interrupted = False
    trouble: str | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, KeyboardInterrupt) or (error and _STOPPED.search(str(error.__cause__))):
            self.interrupted = True
            return False
        while error is not None:
            if (trouble := disk_trouble(error)) is not None:
                self.trouble = trouble
                return False
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return True


def watch_disk() -> None:
    """End this process if the disk stays full while DVC, with no stage running, waits for space.

    Otherwise DVC would try forever to write to its cache of hashes.
    """
    full = 0.0
    while True:
        time.sleep(_PAUSE)
        at_work = shutil.disk_usage(os.curdir).free >= _ROOM or psutil.Process().children()
        full = 0.0 if at_work else full + _PAUSE
        if full >= _PATIENCE:
            remove_begun_copies(Path(Repo.find_root()), Path())
            print(f"error: {disk_trouble(OSError(errno.ENOSPC, ''))}, {KEPT}", file=sys.stderr, flush=True)
            os._exit(1)
