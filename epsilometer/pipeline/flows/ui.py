"""Prefect's server, a worker, the deployments of prefect.yaml and the report pages, all of this project's own.

usage: python -m flows.ui start [--port 4200] | stop

They listen on 127.0.0.1 alone and keep data and logs in PREFECT_HOME (.prefect in the project). While they are up,
the server's address and secret stand in Prefect's profile there, so that `make flow` and `prefect` find it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectAlreadyExists
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_HOME,
    temporary_settings,
    update_current_profile,
)

from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows import PROJECT

ROOT = PROJECT
POOL = "epsilometer"  # as in prefect.yaml
PARTS = ("worker", "pages", "server")  # in the order in which they end: the server hears of the worker's runs
_SECRET = "PREFECT_API_AUTH_STRING"  # set when this package is imported
_PATIENCE = 600.0  # seconds until a part must be up; 10 do on an idle machine
_GRACE = 10.0  # seconds between asking processes to end and ending them


def start(port: int) -> str:
    """Bring up what is not up, deploy, and return the server's address.

    The pages are at the next port. Raises UserError when a port is taken or a part does not start.
    """
    running, recorded = _running(), _recorded()
    if "server" in running:
        port = recorded["port"]
    for part, number in (("server", port), ("pages", port + 1)):
        if part not in running and _in_use(number):
            raise UserError(f"port {number} is taken, and not by this project; try `make ui PORT={port + 10}`")
    url = f"http://127.0.0.1:{port}"
    commands = {
        "server": ["epsilometer.pipeline.flows.server", str(port)],
        "pages": ["epsilometer.pipeline.flows.pages", str(port + 1)],
        "worker": ["prefect", "worker", "start", "--pool", POOL, "--type", "process", "--name", POOL],
    }
    _record({"port": port, "reports": f"http://127.0.0.1:{port + 1}"})

    def up(part: str) -> psutil.Process:
        return running.get(part) or _spawn(part, commands[part], _environment(url))

    server, _ = up("server"), up("pages")
    with temporary_settings({PREFECT_API_URL: f"{url}/api"}), get_client(sync_client=True) as client:
        _wait(server, "server", lambda: client.api_healthcheck() is None)
        update_current_profile({PREFECT_API_URL: f"{url}/api", PREFECT_API_AUTH_STRING: os.environ[_SECRET]})
        _set_up_pool(client)
        worker = up("worker")
        deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        done = subprocess.run(deploy, cwd=ROOT, env=_environment(url), capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"`prefect deploy --all` failed:\n{done.stdout}{done.stderr}")
        _wait(worker, "worker", lambda: _polls(client, since=worker.create_time()))
    return url


def stop() -> bool:
    """End all parts with all that they started; returns whether there were any."""
    running = _running()
    for part in filter(running.get, PARTS):
        _end(running[part])
    update_current_profile({PREFECT_API_URL: None, PREFECT_API_AUTH_STRING: None})
    _file().unlink(missing_ok=True)
    return bool(running)


def _environment(url: str) -> dict[str, str]:
    """The environment of the parts and of the worker's flow runs: this Python, this project."""
    return os.environ | {
        "PATH": os.pathsep.join(filter(None, [str(Path(sys.executable).parent), os.environ.get("PATH")])),
        "PWD": str(ROOT),  # the deployments' working directory, in prefect.yaml
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_HOME": str(_home()),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url,  # no other page in the same browser starts a run
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }


def _set_up_pool(client: SyncPrefectClient) -> None:
    """The deployments' pool: one run at a time, as all of them work in the same folders.

    Its template has no variables, so that no deployment, run or automation can set by which command, where, or in
    which environment a run starts. (An `env` in it would be merged with theirs, so there is none.)
    """
    template = {
        "job_configuration": {"working_dir": str(ROOT), "stream_output": True},
        "variables": {"type": "object", "properties": {}},
    }
    try:
        client.create_work_pool(
            WorkPoolCreate(name=POOL, type="process", base_job_template=template, concurrency_limit=1)
        )
    except ObjectAlreadyExists:  # of an earlier start, perhaps of an earlier version
        client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=template, concurrency_limit=1))


def _polls(client: SyncPrefectClient, since: float) -> bool:
    """Whether the worker has reported to the server after a time: one that was stopped counts as online for a while."""
    beats = [worker.last_heartbeat_time for worker in client.read_workers_for_work_pool(POOL)]
    return any(beat is not None and beat.timestamp() >= since for beat in beats)


def _home() -> Path:
    return Path(PREFECT_HOME.value()).resolve()


def _log(part: str) -> Path:
    return _home() / f"{part}.log"


def _file() -> Path:
    return _home() / "ui.json"


def _recorded() -> dict[str, Any]:
    """The server's port, the pages' address, and of each part its process: number and time of creation, as numbers
    are used again.
    """
    return dict(json.loads(_file().read_text())) if _file().is_file() else {}


def _record(changes: dict[str, Any]) -> None:
    _home().mkdir(parents=True, exist_ok=True)
    _file().write_text(json.dumps(_recorded() | changes))


def _running() -> dict[str, psutil.Process]:
    """The recorded processes that still run, by part."""
    running = {}
    for part in PARTS:
        number, created = _recorded().get(part, (0, None))
        with contextlib.suppress(psutil.NoSuchProcess):
            if number and (process := psutil.Process(number)).create_time() == created and _is_alive(process):
                running[part] = process
    return running


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _spawn(part: str, command: list[str], environment: dict[str, str]) -> psutil.Process:
    """Start a part in a session of its own, so that it outlives this one, and record it."""
    with _log(part).open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process = psutil.Process(child.pid)
    _record({part: [process.pid, process.create_time()]})
    return process


def _wait(process: psutil.Process, part: str, is_up: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE
    while not is_up():
        if not _is_alive(process):
            raise UserError(f"the {part} ended; its log, {_log(part)}, ends with\n{_log(part).read_text()[-2000:]}")
        if time.monotonic() > until:
            raise UserError(f"the {part} is not up after {_PATIENCE:.0f} s; its log is {_log(part)}")
        time.sleep(0.2)


def _end(process: psutil.Process) -> None:
    """Ask a process and its descendants to end, then kill those that are left."""
    family = [process, *process.children(recursive=True)]
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.terminate()
    _, left = psutil.wait_procs(family, timeout=_GRACE)
    for one in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(left, timeout=_GRACE)


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    """The command line; a user's error is one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m flows.ui")
    parser.add_argument("what", choices=["start", "stop"])
    parser.add_argument("--port", type=int, default=4200)
    given = parser.parse_args()
    try:
        if given.what == "start":
            url = start(given.port)
            print(
                f"{url} shows the audits that run as flows: `make flow`, the schedule's, those that {url}/deployments"
            )
            print(
                "starts. `make audit` does without Prefect, so its runs are not there; its report is reports/audit.html"
            )
            print(f"it asks once for the project's secret: cat {os.path.relpath(_home() / 'secret')}")
        else:
            print("stopped" if stop() else "nothing was running")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
