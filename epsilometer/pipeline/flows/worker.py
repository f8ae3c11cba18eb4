"""Prefect's worker for this project, which ends before another process can take the server's port.

Otherwise that process could run any command, because the worker executes the commands of the server at that port.

usage: python -m epsilometer.pipeline.flows.worker NUMBER-OF-THE-SERVER'S-PROCESS

The worker inherits the server's socket, so the port stays taken until the worker and its runs have ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import psutil
from prefect.cli import app

from epsilometer.pipeline.flows.processes import end, is_alive

POOL = "epsilometer"  # the same name as in prefect.yaml
_PAUSE = 0.5  # seconds between checks of the server


def end_with(server: psutil.Process) -> None:
    """Watch the server from now on. When it has ended, end the runs of this worker, then this process."""

    def watch() -> None:
        while is_alive(server):
            time.sleep(_PAUSE)
        end(psutil.Process().children(recursive=True))
        os._exit(1)

    threading.Thread(target=watch, name="end-with-server", daemon=True).start()


if __name__ == "__main__":
    end_with(psutil.Process(int(sys.argv[1])))
    sys.argv[1:] = ["worker", "start", "--pool", POOL, "--type", "process", "--name", POOL]
    app()
