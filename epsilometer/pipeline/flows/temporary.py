"""A Prefect server for this process alone. The server ends with the process, even if the process is killed."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
from prefect.settings import get_current_settings

from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows.listening import HOST, held
from epsilometer.pipeline.flows.starting import answers, wait


def start() -> subprocess.Popen[bytes]:
    """Start the server, and make flows of this process report to it.

    Keep a reference to the returned process, which ends the server when this process has ended. Raises UserError if the
    server does not start.
    """
    from prefect.server.api.server import SubprocessASGIServer  # takes seconds

    instance = SubprocessASGIServer()
    instance.port, instance.server_process, ending = serve()
    instance.running = True
    atexit.register(instance.stop)
    return ending


def serve() -> tuple[int, subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """Start a server. Returns its port, its process, and a process that ends the server after this process.

    The server ignores Ctrl-C: an interrupted flow still needs the server, and would try for minutes to report its end.
    Prefect's own function is not used: it gives up if the first answer takes more than five seconds, which happens on a
    busy machine.
    """
    with closing(held(0)) as listening:  # no other process can take the port before the server listens
        port = listening.getsockname()[1]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a child keeps the mask
        server = subprocess.Popen(
            [sys.executable, "-m", "epsilometer.pipeline.flows.server", str(port), str(listening.fileno())],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
        )
        waits = ["sh", "-c", 'read _; kill "$0"', str(server.pid)]  # kills the server when the pipe is closed
        ending = subprocess.Popen(waits, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        wait(psutil.Process(server.pid), "server of this run", lambda: answers(f"http://{HOST}:{port}"))
    except UserError:
        # End `ending` first. Otherwise it could later kill another process that has got the server's number.
        for process in (ending, server):
            process.kill()
            process.wait()
        raise
    return port, server, ending


def _environment() -> dict[str, str]:
    """Return the server's environment: this project, no pages, and only the services that one run needs."""
    paths = [str(Path(__file__).resolve().parents[3]), os.environ.get("PYTHONPATH", "")]
    own = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
    }
    return os.environ | get_current_settings().to_environment_variables(exclude_unset=True) | own
