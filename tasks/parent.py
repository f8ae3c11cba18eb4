"""Nothing is left running: what a killed run has started ends with it."""

from __future__ import annotations

import os
import signal
import threading
import time

RUNNER = "EPSILOMETER_RUNNER"  # the process that brings stages up to date, for those that it starts
_PAUSE = 0.5  # seconds between looks


def end_with_parent() -> None:
    """End this process when the one that started it ends, however that ended, within about half a second.

    Otherwise a stage whose `dvc repro` was killed would go on, and write its output into the next run's. For what a
    run has started alone: what was started by hand may outlive its shell.
    """
    if not {RUNNER, "DVC_STAGE"} & os.environ.keys():
        return
    parent, runner = os.getppid(), int(os.environ.get(RUNNER, 0))

    def alive() -> bool:
        if runner in (0, parent):
            return os.getppid() == parent
        try:  # a shell stands between, or the runner had ended before this process could look
            os.kill(runner, 0)
        except ProcessLookupError:
            return False
        return os.getppid() == parent

    def watch() -> None:
        while alive():
            time.sleep(_PAUSE)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
