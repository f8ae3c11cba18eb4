"""The audit flow on a small DVC project with its own Prefect server: which stages run, their order, and messages."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

import epsilometer.pipeline.flows.audit  # sets Prefect's environment: before Prefect is imported

# isort: split
from dvc.exceptions import DvcException
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterTaskRunId,
)
from prefect.client.schemas.objects import TaskRun
from prefect.states import Completed, State

from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.core import tables
from epsilometer.pipeline.flows import connection, output
from epsilometer.pipeline.flows.output import environment, show
from epsilometer.pipeline.flows.reproduce import reproduce
from epsilometer.report import origin
from tests.support.dvc_project import make_project
from tests.support.prefect_server import prefect_server
from tests.support.waiting import LAST_RESORT, wait_for

# `second` outputs only the first letter, so later changes do not propagate. It refuses an x.
STAGES = {
    "first": ("import shutil; shutil.copy('source.txt', 'first.txt')", "source.txt"),
    "second": (
        "import sys; t = open('first.txt').read(); print('read', len(t), 'letters');"
        " sys.exit('no x, please') if t[0] == 'x' else open('second.txt', 'w').write(t[0])",
        "first.txt",
    ),
    "third": ("import shutil; shutil.copy('second.txt', 'third.txt')", "second.txt"),
    "apart": ("import sys; print(sys.prefix, file=open('apart.txt', 'w'))", "apart_source.txt"),
}
NEEDS = {"first": [], "second": ["first"], "third": ["second"], "apart": []}


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    with prefect_server():
        yield


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    _write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("_server")
def test_runs_what_is_stale_and_nothing_else(project: Path) -> None:
    row = dict.fromkeys(ESTIMATES) | {
        "dataset": "toy",
        "mechanism": "tem",
        "epsilon": 0.5,
        "attack": "length",
        "loss": 1.23456789,
        "ceiling": float("inf"),
        "verdict": "violated",
    }
    tables.write(pl.DataFrame([row], schema=dict(ESTIMATES)), "data/estimates.parquet", ESTIMATES)
    Path("reports/figures").mkdir(parents=True)
    Path("reports/figures/Toy_Curve.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    for name in ("a", "b"):  # two files; Prefect can publish only one of them
        Path(f"reports/figures/large_{name}.svg").write_text(f"<svg><!--{'.' * 500_000}--></svg>")
    Path("reports/audit.html").write_text("<p>a private text</p>")

    state, runs = _audit()
    assert state.is_completed()
    assert _names(runs) == dict.fromkeys(STAGES, "Reproduced")
    begun = {stage: run.start_time for stage, run in runs.items() if run.start_time}
    ended = {stage: run.end_time for stage, run in runs.items() if run.end_time}
    assert all(ended[need] <= begun[stage] for stage, needs in NEEDS.items() for need in needs)
    assert Path("apart.txt").read_text().strip() == sys.prefix, "`python` in a stage is the one that runs the flow"
    assert "read 3 letters" in _logged(runs["second"])

    artifacts = _artifacts(state)
    assert artifacts.keys() == {"calibration", "verdicts", "figures", "report"}
    assert '"loss": 1.235' in artifacts["calibration"]
    assert '"ceiling": "inf"' in artifacts["calibration"]
    assert "| violated | tem | 0.5 | audit |" in artifacts["verdicts"]
    assert "![Toy_Curve](data:image/svg+xml;base64," in artifacts["figures"]
    assert "![large_a](" in artifacts["figures"]
    assert str((project / "reports/figures/large_b.svg").resolve()) in artifacts["figures"]
    assert len(artifacts["figures"]) < 1_100_000
    assert (project / "reports/audit.html").as_uri() in artifacts["report"]
    assert not any("private" in shown for shown in artifacts.values())

    state, runs = _audit()
    assert _names(runs) == dict.fromkeys(STAGES, "Cached")
    assert state.message == "reproduced: nothing, all was up to date"

    Path("source.txt").write_text("only")
    state, runs = _audit()
    assert state.message == "reproduced: first, second"
    assert _names(runs) == {"first": "Reproduced", "second": "Reproduced", "third": "Cached", "apart": "Cached"}


@pytest.mark.usefixtures("_server", "project")
def test_a_failed_stage_stops_those_that_depend_on_it() -> None:
    Path("source.txt").write_text("xyz")
    state, runs = _audit(ran=3)
    assert state.is_failed()
    assert state.message == "failed: second; not run because of that: third"
    assert _names(runs) == {"first": "Reproduced", "second": "Failed", "apart": "Reproduced"}
    assert "no x, please" in str(runs["second"].state and runs["second"].state.message)
    assert not Path("third.txt").exists()
    assert not _artifacts(state)


@pytest.mark.usefixtures("_server")
def test_progress_is_an_artifact_of_the_run_and_the_run_is_named() -> None:
    @flow
    def shows() -> State[Any]:
        said = ["begins", "rewrite: 10 of 40, about 30 s left", "rewrite: 30 of 40, about 9 s left", "ends"]
        assert show(iter(said), "rewrite@toy") == said
        named = json.loads(environment()[origin.RUN])
        return Completed(message=f"{named['id']} {named['name']}")

    state = shows(return_state=True)
    run = state.state_details.flow_run_id
    chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    with get_client(sync_client=True) as client:
        (artifact,) = client.read_artifacts(artifact_filter=chosen)
        assert state.message == f"{run} {client.read_flow_run(run).name}"
    assert (artifact.type, artifact.data, artifact.key) == ("progress", 75.0, None)
    assert artifact.description == "rewrite@toy: rewrite: 30 of 40, about 9 s left"


def test_progress_is_no_reason_to_wait_for_a_server_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nothing:
        nothing.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nothing.getsockname()[1]}/api"
        monkeypatch.setattr(connection, "get_client", lambda **_: SimpleNamespace(api_url=url))
        monkeypatch.setattr(output, "get_run_logger", lambda: logging.getLogger("toy"))
        monkeypatch.setattr(output, "create_progress_artifact", lambda *_, **__: pytest.fail("tries for half a minute"))
        assert show(["rewrite: 10 of 40, about 30 s left"], "rewrite@toy") == ["rewrite: 10 of 40, about 30 s left"]


def test_the_graph_is_the_folders_own(project: Path) -> None:
    _write_project(project / "runs/other")
    assert epsilometer.pipeline.flows.audit.dependencies(".", None) == NEEDS
    assert epsilometer.pipeline.flows.audit.dependencies(".", "second") == {"first": [], "second": ["first"]}
    address = "runs/other/dvc.yaml:{}".format
    assert epsilometer.pipeline.flows.audit.dependencies("runs/other", None) == {
        address(stage): [address(need) for need in needs] for stage, needs in NEEDS.items()
    }
    with pytest.raises(DvcException, match="fourth"):
        epsilometer.pipeline.flows.audit.dependencies(".", "fourth")


def _write_project(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stages = {
        name: {"cmd": f'python -c "{code}"', "deps": [dep], "outs": [f"{name}.txt"]}
        for name, (code, dep) in STAGES.items()
    }
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
    (folder / "source.txt").write_text("one")
    (folder / "apart_source.txt").write_text("")


def _audit(ran: int = len(STAGES)) -> tuple[State[Any], dict[str, TaskRun]]:
    """Run the flow; its final state, and the task runs as the server has them, which hears of them with some delay."""
    state = epsilometer.pipeline.flows.audit.audit(return_state=True)
    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:

        def final() -> list[TaskRun]:
            runs = client.read_task_runs(flow_run_filter=chosen)
            return runs if len(runs) >= ran and all(run.state and run.state.is_final() for run in runs) else []

        runs = wait_for(f"the server's record of {ran} task runs that ended", final)
    return state, {run.name: run for run in runs}


def _names(runs: dict[str, TaskRun]) -> dict[str, str | None]:
    return {stage: run.state_name for stage, run in runs.items()}


def _logged(run: TaskRun) -> list[str]:
    chosen = LogFilter(task_run_id=LogFilterTaskRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        logs = wait_for(f"the log of {run.name} on the server", lambda: client.read_logs(chosen))
    return [log.message for log in logs]


def _artifacts(state: State[Any]) -> dict[str | None, str]:
    chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return {artifact.key: str(artifact.data) for artifact in client.read_artifacts(artifact_filter=chosen)}


@pytest.mark.parametrize("there", [False, True])
def test_without_its_server_the_process_ends_once_the_stages_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    """Once the server has been gone for _GONE (20 s) and not after minutes, but not before the stages have ended.

    Not while the server is there, and not when the end was reported. A look at the server takes a second, by the test's
    clock.
    """
    codes: list[int] = []
    looks = itertools.count(1)
    clock = SimpleNamespace(now=0)
    answers = connection.Server.answers

    def look(server: connection.Server) -> bool:
        clock.now = next(looks)
        return answers(server)

    monkeypatch.setattr(connection.Server, "answers", look)
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(connection, "_PAUSE", 0.001)
    monkeypatch.setattr(
        connection.os,
        "_exit",
        lambda code: (codes.append(code), connection._reported.set()),
    )
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if there:
            server.listen(100)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/api"
        monkeypatch.setattr(connection, "get_client", lambda **_: SimpleNamespace(api_url=url))
        earlier = {thread for thread in threading.enumerate() if thread.name == "end-without-server"}
        ended = connection.watch_server()
        (watcher,) = {thread for thread in threading.enumerate() if thread.name == "end-without-server"} - earlier
        wait_for("30 s without an end", lambda: clock.now > 30)
        assert watcher.is_alive(), "the stages go on"
        ended(1)
        at_end = clock.now
        if there:
            wait_for("another 30 s without an end", lambda: clock.now > at_end + 30)
            assert watcher.is_alive()
            connection._reported.set()
        watcher.join(LAST_RESORT)
        assert not watcher.is_alive()
        assert there or clock.now <= at_end + 2, "it was gone for long enough already"
    assert codes == ([] if there else [1])
    assert ("no longer answers: it does not record the end of this run" in capsys.readouterr().err) != there


@pytest.mark.usefixtures("_server", "project")
def test_a_dvc_yaml_that_disappears_is_one_message() -> None:
    """As when another commit is checked out meanwhile."""
    Path("dvc.yaml").unlink()
    state = epsilometer.pipeline.flows.audit.audit(return_state=True)
    assert state.is_failed()
    assert "dvc.yaml does not exist: was another commit checked out while the audit ran?" in str(state.message)
    reproduced = reproduce("first", return_state=True)
    assert reproduced.is_failed()
    assert str(reproduced.message) == "first: 'first' does not exist as an output or a stage name in 'dvc.yaml'"
