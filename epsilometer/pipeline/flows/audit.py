"""The audit as a Prefect flow: DVC's stages in the order of DVC's own graph, and the results as artifacts.

usage: python -m flows.audit [--folder runs/atis] [--target STAGE] [--jobs 2]

Shows in the Prefect server at PREFECT_API_URL; without one, a server starts for this run alone (about 20 s).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from dvc.dvcfile import StageFileDoesNotExistError
from dvc.exceptions import DvcException
from prefect import Flow, flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.futures import PrefectFuture, as_completed
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed, State
from prefect.task_runners import ThreadPoolTaskRunner

from epsilometer.core.errors import UserError
from epsilometer.pipeline import INTERRUPTED, ordering
from epsilometer.pipeline.dvc_files import GONE
from epsilometer.pipeline.flows import temporary
from epsilometer.pipeline.flows.artifacts import publish
from epsilometer.pipeline.flows.listening import is_own
from epsilometer.pipeline.flows.output import Server
from epsilometer.pipeline.flows.pages import HOSTS
from epsilometer.pipeline.flows.reproduce import reproduce, stopped_with_this
from epsilometer.pipeline.opening import locked, opened
from epsilometer.pipeline.ordering import in_order, missed
from epsilometer.pipeline.repro import held

_GRACE = 7.0  # seconds to report an end requested by SIGTERM
_GONE = 20.0  # seconds without a connection to the server before it counts as gone
_PAUSE = 1.0  # seconds between checks of the server
_reported = threading.Event()


def _side_by_side(stages: int) -> Any:
    """A runner of this many stages at a time; typed Any, as the type that Prefect asks for excludes its own runner."""
    return ThreadPoolTaskRunner(max_workers=stages)


def _has_reported(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    _reported.set()


@flow(
    persist_result=False,
    task_runner=_side_by_side(2),
    on_completion=[_has_reported],
    on_failure=[_has_reported],
    on_crashed=[_has_reported],
    on_cancellation=[_has_reported],
)
def audit(folder: str = ".", target: str | None = None) -> State[Any]:
    """Bring the audit in a folder up to date, or one stage of it and what that depends on.

    A stage is submitted as soon as its dependencies are done, so that no waiting stage takes another's place. If one
    fails, the stages that depend on it do not run, all others do, and the flow fails at the end.
    """
    _end_soon_after_sigterm()
    with held(Path(folder), get_run_logger().warning), stopped_with_this():
        return _bring_up_to_date(folder, target, _watch_server())


def _bring_up_to_date(folder: str, target: str | None, ended: Callable[[int], None]) -> State[Any]:
    try:
        needs = dependencies(folder, target)
    except StageFileDoesNotExistError as error:
        return Failed(message=f"{error.file} {GONE}")
    futures: dict[str, PrefectFuture[Any]] = {}
    running: dict[PrefectFuture[Any], str] = {}

    def submit(stage: str) -> None:
        waiting = [futures[n] for n in needs[stage]]
        futures[stage] = reproduce.submit(stage, return_state=False, wait_for=waiting)
        running[futures[stage]] = stage

    def first_to_end() -> tuple[str, bool]:
        future = next(as_completed([*running]))
        future.wait()
        return running.pop(future), future.state.is_completed()

    failed, left = in_order(needs, len(needs), submit, first_to_end)  # the runner limits how many run at a time
    ended(1 if failed else 0)
    if failed:
        return Failed(message=missed(failed, left))
    if target is None:
        publish(Path(folder))
    reproduced = [stage for stage, future in futures.items() if future.state.name == "Reproduced"]
    return Completed(message=f"reproduced: {', '.join(reproduced) or 'nothing, all was up to date'}")


def dependencies(folder: str, target: str | None) -> dict[str, list[str]]:
    """The stages to bring up to date, by address, with the dependencies of each, from DVC's graph."""
    file = str(Path(folder, "dvc.yaml"))
    with opened() as repo, locked(repo):
        return ordering.dependencies(repo, [f"{file}:{target}" if target else file])


def main() -> None:
    """The command line; exit code 1 when a stage failed, 2 for an unknown folder or stage."""
    parser = argparse.ArgumentParser(prog="python -m flows.audit", description=audit.__doc__)
    parser.add_argument("--folder", default=".", help="the folder of its dvc.yaml")
    parser.add_argument("--target", help="a stage, or all of one kind: attack")
    parser.add_argument("--jobs", type=int, default=2, choices=range(1, 5), help="stages at a time")
    options = parser.parse_args()
    try:
        dependencies(options.folder, options.target)  # a misspelt name fails before the server starts
    except DvcException as error:
        parser.error(str(error))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    _server = server_or_exit()
    run = audit.with_options(task_runner=_side_by_side(options.jobs))
    try:
        state = run(options.folder, options.target, return_state=True)
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(130)
    sys.exit(0 if state.is_completed() else 1)


def server_or_exit() -> subprocess.Popen[bytes] | None:
    """As `server`; without one, prints the reason and ends this process with exit code 2."""
    try:
        return server()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def server() -> subprocess.Popen[bytes] | None:
    """Prefect's server for this process: the one at PREFECT_API_URL, or one that ends with the returned process.

    Raises UserError if there is none at that address, which a flow would try for minutes; if it is another user's
    (nothing is sent there, neither the secret nor a run); and if its own does not start.
    """
    url = urlsplit(PREFECT_API_URL.value() or "")
    if not url.hostname:
        return temporary.start()
    if url.hostname not in HOSTS or is_own(url.port or 80):
        with get_client(sync_client=True) as client:
            if client.api_healthcheck() is None:
                return None
    raise UserError(
        f"Prefect's server at {url.geturl()} does not answer, or is another user's. `make ui` starts this project's; "
        "`make ui-stop` forgets it, and the flow then brings one of its own (as it does without PREFECT_API_URL "
        "in the environment); `make audit` needs none",
        "EPS-P025",
    )


def _watch_server() -> Callable[[int], None]:
    """Watch the server from now on until this run's end is reported.

    Call the returned function once the stages have ended, with the exit code: this process then also ends as soon as
    the server has been gone for _GONE, including the time before that call. Prefect would try for minutes to reach it.
    A server that is only slow is waited for.
    """
    global _reported
    _reported.set()  # ends an earlier run's watch
    _reported = reported = threading.Event()
    code: int | None = None
    server = Server()

    def ended(exit_with: int) -> None:
        nonlocal code
        code = exit_with

    def watch() -> None:
        seen = time.monotonic()
        while not reported.wait(_PAUSE):
            if server.answers():
                seen = time.monotonic()
            elif code is not None and time.monotonic() - seen >= _GONE:
                said = f"Prefect's server at {server} is gone: its records lack the end of this run, "
                print(said + "whose results are kept", file=sys.stderr, flush=True)
                os._exit(code)

    threading.Thread(target=watch, name="end-without-server", daemon=True).start()
    return ended


def _end_soon_after_sigterm() -> None:
    """Limit the time of Prefect's own handler of the signal.

    Without its server it tries for minutes to report that the flow was stopped. Stages end with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    prefects = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        last = threading.Timer(_GRACE, os._exit, [128 + number])
        last.daemon = True
        last.start()
        if callable(prefects):
            prefects(number, frame)
        else:
            sys.exit(128 + number)

    signal.signal(signal.SIGTERM, handle)


if __name__ == "__main__":
    main()
