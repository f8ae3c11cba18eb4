"""End the processes of a run that was killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import psutil

from epsilometer.pipeline import RUNNER

_SHELLS = {"sh", "dash", "bash", "zsh", "ksh", "fish"}  # shells that DVC may start between itself and a stage
_PAUSE = 0.5  # seconds between checks
_GRACE = 5.0  # seconds between SIGTERM and the end of this process


def end_with_parent() -> None:
    """End this process about half a second after the end of the run that started it, even if the run was killed.

    Otherwise a stage whose `dvc repro` was killed would continue, and write into the outputs of the next run. A process
    that was started by hand, not by a run, may outlive its shell.
    """
    if RUNNER in os.environ:
        parent = _process(int(os.environ[RUNNER]))
    elif "DVC_STAGE" in os.environ:
        parent = next((p for p in psutil.Process().parents() if p.name() not in _SHELLS), None)
        if parent is not None and parent.pid == 1 and not any("dvc" in word for word in parent.cmdline()):
            parent = None  # DVC ended before this process could check
    else:
        return

    def watch() -> None:
        with suppress(psutil.NoSuchProcess):
            while parent is not None and parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
                time.sleep(_PAUSE)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _process(number: int) -> psutil.Process | None:
    try:
        return psutil.Process(number)
    except psutil.NoSuchProcess:
        return None
