"""Prefect's server, a worker, the deployments of prefect.yaml and the report pages, for this project alone.

usage: python -m flows.ui start [--port 4200] | stop

The server and the pages listen only on 127.0.0.1. Data and logs are stored in PREFECT_HOME (.prefect in the project).
From `start` to `stop`, the Prefect profile in this folder also has the server's address and secret, so that `make flow`
and `prefect` find the server. Another user of the machine could take a free port, and receive what is sent to it. So
the sockets listen at both ports before anything is sent. The parts are three processes: the worker, the pages and the
server. They inherit the sockets, and the worker ends when the server ends. Each new server gets a new secret.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
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

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows import PROJECT, SERVERS_SECRET, new_secret
from epsilometer.pipeline.flows.listening import HOST, held
from epsilometer.pipeline.flows.processes import end, is_alive
from epsilometer.pipeline.flows.starting import answers, wait
from epsilometer.pipeline.flows.worker import POOL

ROOT = PROJECT
# `stop` ends the parts in this order, so that the server can still record the end of the worker's runs.
PARTS = ("worker", "pages", "server")


def start(port: int, say: Callable[[str], None]) -> None:
    """Start the parts that do not run yet, and write the deployments.

    port: the server's port; the pages get the next port. say: is called with the address, then with each step. Raises
    UserError if a port is taken or a part does not start.
    """
    running = _running()
    if "server" in running and "worker" in running:
        port = _recorded()["port"]
    else:  # a part that still runs has the earlier secret, so it must be replaced
        for part in running.values():
            end([part, *part.children(recursive=True)])
        running = {}
        new_secret()
    url, secret = f"http://{HOST}:{port}", os.environ[SERVERS_SECRET]
    say(f"{url}/deployments asks once for this project's secret. To see it: cat {os.path.relpath(_home() / 'secret')}")
    environment = _environment(url) | {PREFECT_API_AUTH_STRING.name: secret}
    with contextlib.ExitStack() as handed_over:

        def socket(number: int) -> int:
            return handed_over.enter_context(contextlib.closing(held(number))).fileno()

        ports = {"server": port, "pages": port + 1}
        sockets = {part: socket(number) for part, number in ports.items() if part not in running}
        _record({"port": port, "reports": f"http://{HOST}:{port + 1}"})
        for part, number in sockets.items():
            command = [f"epsilometer.pipeline.flows.{part}", str(ports[part]), str(number)]
            running[part] = _spawn(part, command, environment, number)
        settings: dict[Any, Any] = {PREFECT_API_URL: f"{url}/api", PREFECT_API_AUTH_STRING: secret}
        with temporary_settings(settings), get_client(sync_client=True) as client:
            say(
                "waiting for the server; this takes about half a minute on an idle machine"
                if "server" in sockets
                else "the server is up"
            )
            wait(running["server"], "server", lambda: answers(url), _log("server"))
            update_current_profile(settings)
            _set_up_pool(client)
            if "server" in sockets:
                command = ["epsilometer.pipeline.flows.worker", str(running["server"].pid)]
                running["worker"] = _spawn("worker", command, environment, sockets["server"])
            say("writing the deployments of prefect.yaml")
            deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
            done = subprocess.run(deploy, cwd=ROOT, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise UserError(f"`prefect deploy --all` failed:\n{done.stdout}{done.stderr}", "EPS-P029")
            say("waiting for the worker, which runs the flows")
            worker = running["worker"]
            wait(worker, "worker", lambda: _polls(client, since=worker.create_time()), _log("worker"))


def stop() -> bool:
    """End all parts and their children; returns True if there were any."""
    running = _running()
    for part in filter(running.get, PARTS):
        end([running[part], *running[part].children(recursive=True)])
    update_current_profile({PREFECT_API_URL: None, PREFECT_API_AUTH_STRING: None})
    _file().unlink(missing_ok=True)
    return bool(running)


def _environment(url: str) -> dict[str, str]:
    """Return the environment of the parts and of the worker's flow runs, with this Python and this project."""
    return os.environ | {
        "PATH": os.pathsep.join(filter(None, [str(Path(sys.executable).parent), os.environ.get("PATH")])),
        "PWD": str(ROOT),  # used in prefect.yaml as the deployments' working directory
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_HOME": str(_home()),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url,  # no other page in the same browser can start a run
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }


def _set_up_pool(client: SyncPrefectClient) -> None:
    """Create or update the deployments' pool: one run at a time, because all runs use the same folders.

    The pool's template has no variables and no `env`, so no deployment, run or automation can set the command, folder
    or environment of a run.
    """
    template = {
        "job_configuration": {"working_dir": str(ROOT), "stream_output": True},
        "variables": {"type": "object", "properties": {}},
    }
    try:
        client.create_work_pool(
            WorkPoolCreate(name=POOL, type="process", base_job_template=template, concurrency_limit=1)
        )
    except ObjectAlreadyExists:  # made by an earlier start, perhaps of an earlier version
        client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=template, concurrency_limit=1))


def _polls(client: SyncPrefectClient, since: float) -> bool:
    """Return True if the worker has reported since this time. Prefect counts a stopped worker as online for a while."""
    beats = [worker.last_heartbeat_time for worker in client.read_workers_for_work_pool(POOL)]
    return any(beat is not None and beat.timestamp() >= since for beat in beats)


def _home() -> Path:
    return Path(PREFECT_HOME.value()).resolve()


def _log(part: str) -> Path:
    return _home() / f"{part}.log"


def _file() -> Path:
    return _home() / "ui.json"


def _recorded() -> dict[str, Any]:
    """Return the recorded port of the server, address of the pages, and process of each part.

    A process is recorded by its number and time of creation, because numbers are reused.
    """
    try:
        return dict(json.loads(_file().read_text())) if _file().is_file() else {}
    except ValueError:
        raise UserError(
            f"{_file()} is damaged; delete it, and end the processes of `make ui` yourself", "EPS-P030"
        ) from None


def _record(changes: dict[str, Any]) -> None:
    _home().mkdir(parents=True, exist_ok=True)
    write_text(json.dumps(_recorded() | changes), _file())


def _running() -> dict[str, psutil.Process]:
    """Return the recorded processes that still run, by part."""
    running = {}
    for part in PARTS:
        number, created = _recorded().get(part, (0, None))
        with contextlib.suppress(psutil.NoSuchProcess):
            if number and (process := psutil.Process(number)).create_time() == created and is_alive(process):
                running[part] = process
    return running


def _spawn(part: str, command: list[str], environment: dict[str, str], socket: int) -> psutil.Process:
    """Start and record a part that inherits a socket. It runs in a new session, so that it outlives this process."""
    with _log(part).open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[socket],
        )
    process = psutil.Process(child.pid)
    _record({part: [process.pid, process.create_time()]})
    return process


def main() -> None:
    """Run the command line; a UserError gives one message and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m flows.ui")
    parser.add_argument("what", choices=["start", "stop"])
    parser.add_argument("--port", type=int, default=4200)
    options = parser.parse_args()
    try:
        if options.what == "start":
            start(options.port, partial(print, flush=True))
            print("ready: the pages show audits that run as flows, but not those of `make audit`")
        else:
            print("stopped" if stop() else "nothing was running")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
