"""The only Prefect task: bring a DVC stage up to date. DVC alone decides what is stale."""

from __future__ import annotations

import threading
from typing import Any

from dvc.exceptions import DvcException
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from epsilometer.core.errors import UserError
from epsilometer.pipeline.flows.output import follow
from epsilometer.pipeline.opening import opened

_ONE_READER = threading.Lock()  # DVC does not promise to be thread-safe


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="{stage}")
def reproduce(stage: str) -> State[Any]:
    """Bring one stage up to date, by its address (`embed@queries`, `runs/atis/dvc.yaml:report`).

    Its dependencies must be up to date. The task's state is Cached, Reproduced, or Failed with the last lines of the
    output. A direct call raises the failure.
    """
    try:
        if not stale(stage):
            return Completed(name="Cached")
    except (DvcException, UserError) as error:
        return Failed(message=f"{stage}: {error}")
    if failure := follow(["-m", "epsilometer.pipeline.repro", "--single-item", stage], stage):
        return Failed(message=failure)
    return Completed(name="Reproduced")


def stale(stage: str) -> bool:
    """Return True if DVC would run the stage now.

    The check takes a quarter of a second in this process, mainly to read dvc.lock. A new process `dvc` would take more
    than a second for each stage, even if nothing has changed. The check changes no file.
    """
    # Another stage's `dvc repro` holds the project's lock while it hashes: wait, as `--wait-for-lock` does.
    with _ONE_READER, opened() as repo:
        return bool(repo.status(targets=[stage]))
