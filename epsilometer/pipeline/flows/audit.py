"""The audit as a Prefect flow: DVC's stages in the order of DVC's own graph, and the results as artifacts.

usage: python -m flows.audit [--folder runs/atis] [--target STAGE] [--jobs 2]

The run appears at the Prefect server at PREFECT_API_URL. If that is not set, a server starts for this run (about 20 s).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException
from prefect import flow, get_run_logger
from prefect.futures import PrefectFuture, as_completed
from prefect.states import Completed, Failed, State
from prefect.task_runners import ThreadPoolTaskRunner

from epsilometer.core.errors import UserError
from epsilometer.pipeline import INTERRUPTED, ordering
from epsilometer.pipeline.dvc_files import GONE
from epsilometer.pipeline.flows.artifacts import publish
from epsilometer.pipeline.flows.connection import end_soon_after_sigterm, has_reported, server_or_exit, watch_server
from epsilometer.pipeline.flows.output import stopped_with_this
from epsilometer.pipeline.flows.reproduce import reproduce
from epsilometer.pipeline.opening import allow_ignored, locked, opened
from epsilometer.pipeline.repro import held

_ENDS: list[Any] = [has_reported]  # Any, because Prefect annotates hooks with another type


def _side_by_side(stages: int) -> Any:
    """Return a runner of this many stages at a time; typed Any, since Prefect's annotation excludes its own runner."""
    return ThreadPoolTaskRunner(max_workers=stages)


@flow(
    persist_result=False,
    task_runner=_side_by_side(2),
    on_completion=_ENDS,
    on_failure=_ENDS,
    on_crashed=_ENDS,
    on_cancellation=_ENDS,
)
def audit(folder: str = ".", target: str | None = None) -> State[Any]:
    """Bring the audit in a folder up to date, or one stage of it and its dependencies.

    A stage is submitted as soon as its dependencies are done, so that waiting stages occupy no worker. If a stage
    fails, the stages that depend on it do not run. All others run, and then the flow fails.
    """
    end_soon_after_sigterm()
    with held(Path(folder), get_run_logger().warning), stopped_with_this():
        if not Path(folder, "dvc.yaml").is_file():
            return Failed(message=f"{Path(folder, 'dvc.yaml')} {GONE}")
        ended, needs = watch_server(), dependencies(folder, target)
        futures: dict[str, PrefectFuture[Any]] = {}
        running: dict[PrefectFuture[Any], str] = {}

        def submit(stage: str) -> None:
            waits_for = [futures[need] for need in needs[stage]]
            futures[stage] = reproduce.submit(stage, return_state=False, wait_for=waits_for)
            running[futures[stage]] = stage

        def first_to_end() -> tuple[str, bool]:
            future = next(as_completed([*running]))
            future.wait()
            return running.pop(future), future.state.is_completed()

        failed, left = ordering.in_order(needs, len(needs), submit, first_to_end)  # the runner limits how many run
        ended(1 if failed else 0)
        if failed:
            return Failed(message=ordering.missed(failed, left))
        if target is None:
            publish(Path(folder))
        reproduced = [stage for stage, future in futures.items() if future.state.name == "Reproduced"]
        return Completed(message=f"reproduced: {', '.join(reproduced) or 'nothing, all was up to date'}")


def dependencies(folder: str, target: str | None) -> dict[str, list[str]]:
    """Return the stages to bring up to date, by address, with the dependencies of each, from DVC's graph."""
    allow_ignored(Path(folder))
    file = str(Path(folder, "dvc.yaml"))
    with opened() as repo, locked(repo):
        return ordering.dependencies(repo, [f"{file}:{target}" if target else file])


def main() -> None:
    """Run the command line; exit code 1 if a stage failed, 2 for an unknown folder or stage."""
    parser = argparse.ArgumentParser(prog="python -m flows.audit", description=audit.__doc__)
    parser.add_argument("--folder", default=".", help="the folder that contains dvc.yaml")
    parser.add_argument(
        "--target", help="a stage with all its entries, such as attack, or one entry, such as rewrite@queries-tem"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, choices=range(1, 5), help="the number of stages that run at a time"
    )
    options = parser.parse_args()
    try:
        dependencies(options.folder, options.target)  # refuses a misspelt name before the server starts
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


if __name__ == "__main__":
    main()
