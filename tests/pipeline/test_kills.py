"""kill -9 at random moments: the next run ends with the bytes of an undisturbed run.

A seeded generator samples the process to kill and the moment: a stage, the `dvc repro` above it, the flow, Prefect's
server, or Prefect's worker. EPSILOMETER_KILLS sets how many kills the slow test makes.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.processes import at_work, below, command, wait_for_end
from tests.support.toy import STAGES, Toy
from tests.support.waiting import LAST_RESORT, finished, pause, wait_for
from tests.support.warm import Warm

pytestmark = pytest.mark.slow

REPRO = ("python", "-m", "epsilometer.pipeline.repro")
FLOW = ("python", "-m", "flows.audit")


class Undisturbed:
    """A toy project, what an undisturbed run of it makes, and how long that takes."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.toy = Toy(folder)
        begun = time.monotonic()
        self.toy.run(*REPRO)
        self.seconds = time.monotonic() - begun
        self.toy.warm = warm
        self.expected = self.toy.results()
        assert len(self.expected) > 2 * len(STAGES)

    def clear_outputs(self) -> None:
        for path in (self.toy.folder / "data").iterdir():
            if path.name != "embedded":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def clear(self) -> None:
        """As if nothing had ever run: no outputs, no record, no cache."""
        self.clear_outputs()
        (self.toy.folder / "dvc.lock").unlink(missing_ok=True)
        for name in (".dvc/cache", ".dvc/tmp", ".dvc-site"):
            shutil.rmtree(self.toy.folder / name, ignore_errors=True)

    def finish(self) -> str:
        """The next run, and that it made what the undisturbed one did; what it said."""
        said = self.toy.run(*REPRO)
        results = self.toy.results()
        assert results.keys() == self.expected.keys(), said
        wrong = [name for name in results if results[name] != self.expected[name]]
        assert not wrong, said
        assert not list((self.toy.folder / "data").rglob("*.partial"))
        return said


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("kills"), warm)


def stage_of(words: str) -> str:
    """The stage that a command line runs; nothing for another."""
    match = re.search(r"epsilometer stage (.*)|(embed)\.py", words)
    return (match[1] or match[2]) if match else ""


def kill_in_repro(project: Undisturbed, target: str, moment: float) -> str:
    """Kill the stage that runs at that share of a run, or the `dvc repro` above it; where, if it hit.

    By the number of stages that have begun, and then by time within one: how fast the machine is does not matter.
    """
    number, part = divmod(moment * len(STAGES), 1)
    process = project.toy.start(*REPRO)
    started: set[psutil.Process] = set()
    stages: list[psutil.Process] = []
    begun: set[str] = set()
    due = math.inf
    while process.poll() is None:  # a stage is killed only while one runs, other processes at the sampled moment
        started.update(below(process))
        stages = [p for p in started if at_work(p) and stage_of(command(p))]
        begun.update(stage_of(command(p)) for p in stages)
        if len(begun) > number:
            due = min(due, time.monotonic() + part * project.seconds / len(STAGES))
        if time.monotonic() >= due and (stages or target == "repro"):
            break
        pause(0.05)
    place = next((stage_of(command(p)) for p in stages), "between stages")
    if process.poll() is not None:  # it ended before the sampled moment
        process.communicate()
        return ""
    if target == "stage" and stages:
        for stage in stages:  # also the shell that started it, if there is one
            stage.kill()
    else:
        process.kill()
    process.communicate()
    wait_for_end(started)
    return place


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_stage_or_repro(undisturbed: Undisturbed, seed: int) -> None:
    draw = random.Random(seed)
    hit = ""
    while not hit:
        undisturbed.clear()
        hit = kill_in_repro(undisturbed, ("stage", "repro")[seed % 2], draw.uniform(0.2, 0.9))
    undisturbed.finish()


def test_half_a_record_is_put_aside(undisturbed: Undisturbed) -> None:
    """What a kill leaves that comes while DVC writes its record, or its list of busy files, in place."""
    folder = undisturbed.toy.folder
    lock = folder / "dvc.lock"
    lock.write_bytes(undisturbed.expected["dvc.lock"][:-70] + b"\n  - pa")
    (folder / ".dvc/tmp/rwlock").write_text('{"read": {"/x": [{"pid": 1, "cm')
    said = undisturbed.finish()
    assert "moved to .dvc/tmp/dvc.lock.damaged" in said
    assert "is cached - skipping run, checking out outputs" in said
    assert set(re.findall("> (.*)", said)) == {
        "epsilometer stage code",
        "epsilometer stage resources",
    }, "nothing is computed again but what always is"


def test_a_process_that_ended_keeps_nothing_busy(undisturbed: Undisturbed) -> None:
    """Neither one that its parent has not fetched yet, nor one whose number is another's by now.

    Neither DVC's list of busy files nor what it had begun to write.
    """
    folder = undisturbed.toy.folder
    begun = psutil.Process().create_time() - 60
    unfetched = subprocess.Popen(["true"])
    wait_for_end([psutil.Process(unfetched.pid)])
    undisturbed.clear_outputs()
    ended = {"cmd": "epsilometer/pipeline/repro.py --single-item attack@songs-mine"}
    entries = []
    for number in (unfetched.pid, os.getpid()):
        entries.append(ended | {"pid": number})
        partial = folder / f"data/.estimates.parquet.{number}.partial"
        partial.write_bytes(b"PAR1")
        if number == os.getpid():
            os.utime(partial, (begun, begun))
    busy = {
        "read": {str(folder / "data/prepared/songs.json"): entries},
        "write": dict(zip((str(folder / "data"), str(folder / "data/trials/songs.json")), entries, strict=True)),
    }
    (folder / ".dvc/tmp/rwlock").write_text(json.dumps(busy))
    undisturbed.finish()  # asserts that no such file is left
    unfetched.wait()


def test_what_a_running_process_writes_is_left_to_it(undisturbed: Undisturbed) -> None:
    partial = undisturbed.toy.folder / f"data/.estimates.parquet.{os.getpid()}.partial"
    partial.write_bytes(b"PAR1")
    try:
        undisturbed.toy.run(*REPRO)
        assert partial.exists()
    finally:
        partial.unlink()


class Prefect:
    """A server and a worker of the toy project, to be killed."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.server: subprocess.Popen[str] | None = None
        self.worker: subprocess.Popen[str] | None = None

    def start(self, worker: bool) -> None:
        """Start what does not run."""
        if self.server is None or self.server.poll() is not None:
            start = ("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port))
            self.server = self._start("server", *start)
            wait_for("the start of Prefect's server", self._healthy, runs=self.server)
        self.toy.environment["PREFECT_API_URL"] = self.url
        if worker and (self.worker is None or self.worker.poll() is not None):
            self.worker = self._start("worker", "prefect", "worker", "start", "--pool", "toy", "--type", "process")
            log = self.toy.folder / "worker.log"
            wait_for("the start of Prefect's worker", lambda: "started!" in log.read_text(), runs=self.worker)

    def deploy(self) -> None:
        """The audit as a deployment `toy` that runs from the project's folder."""
        code = (
            "from prefect import flow; flow.from_source(source='.', entrypoint='flows/audit.py:audit')"
            ".deploy(name='toy', work_pool_name='toy', print_next_steps=False, ignore_warnings=True)"
        )
        self.toy.run("python", "-c", code)

    def stop(self) -> None:
        for process in (self.worker, self.server):
            if process is not None and process.poll() is None:
                children = below(process)
                process.terminate()
                for child in children:
                    if at_work(child):
                        child.kill()
                process.wait()
        self.toy.environment.pop("PREFECT_API_URL", None)

    def _start(self, name: str, *start: str) -> subprocess.Popen[str]:
        with (self.toy.folder / f"{name}.log").open("w") as log:
            environment = {**self.toy.environment, "PREFECT_API_URL": self.url} if name == "worker" else None
            return subprocess.Popen(
                start,
                cwd=self.toy.folder,
                env=environment or {k: v for k, v in self.toy.environment.items() if k != "PREFECT_API_URL"},
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=LAST_RESORT) as answer:
                return bool(json.load(answer))
        except OSError:
            return False


@pytest.fixture
def prefect(undisturbed: Undisturbed) -> Iterator[Prefect]:
    server = Prefect(undisturbed.toy)
    yield server
    server.stop()


def flow_processes(folder: Path) -> list[psutil.Process]:
    """All processes that work for the toy project, but Prefect's server and worker."""
    processes = []
    for process in psutil.process_iter():
        try:
            here = process.cwd() == str(folder) and process.pid != os.getpid()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        words = command(process)
        if here and not any(part in words for part in ("server start", "worker start", "uvicorn", "prefect.server")):
            processes.append(process)
    return processes


def kill_in_flow(project: Undisturbed, prefect: Prefect, target: str, moment: float) -> str:
    """Kill the flow, the server or the worker at that share of a run's time after the first stage began; where."""
    folder = project.toy.folder
    prefect.start(worker=target == "worker")
    if target == "worker":
        prefect.deploy()
        project.toy.run("prefect", "deployment", "run", "audit/toy")
        process = None
    else:
        process = project.toy.start(*FLOW)

    def stages() -> list[str]:
        return list(filter(None, (stage_of(command(p)) for p in flow_processes(folder))))

    wait_for("a stage of the flow", lambda: stages() or (process is not None and process.poll() is not None))
    pause(moment * project.seconds)
    place = next(iter(stages()), "between stages")
    if process is not None and process.poll() is not None:
        process.communicate()
        return ""
    killed = {"flow": process, "server": prefect.server, "worker": prefect.worker}[target]
    assert killed is not None
    for child in below(killed) if target == "server" else []:
        child.kill()
    killed.kill()
    killed.wait()
    if target == "flow":
        wait_for_end(flow_processes(folder))
    if process is not None and target == "server":
        try:  # stages go on without it, but Prefect tries for minutes to report the end
            process.communicate(timeout=2 * project.seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            finished(process)
    return place


def test_fifty_kills(undisturbed: Undisturbed, prefect: Prefect, capsys: pytest.CaptureFixture[str]) -> None:
    count = int(os.environ.get("EPSILOMETER_KILLS", "50"))
    draw = random.Random(2026)
    targets = ("stage", "repro", "stage", "flow", "stage", "repro", "flow", "server", "stage", "worker")
    hits = Counter[tuple[str, str]]()
    for number in range(count):
        target = targets[number % len(targets)]
        place = ""
        while not place:
            undisturbed.clear()
            if target in ("stage", "repro"):
                place = kill_in_repro(undisturbed, target, draw.uniform(0.05, 1))
            else:
                place = kill_in_flow(undisturbed, prefect, target, draw.uniform(0, 0.9))
        undisturbed.toy.environment.pop("PREFECT_API_URL", None)
        said = undisturbed.finish()
        hits[target, place] += 1
        with capsys.disabled():
            notes = [line for line in said.splitlines() if line.startswith("note:")]
            print(f"kill {number + 1}: {target} in {place}; same bytes", *notes, flush=True)
    assert hits.total() == count
