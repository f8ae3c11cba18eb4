"""Concurrent stages: their order, their messages, and the effects of failures, signals and a full disk.

The tests run on a project of five stages: `first` and `second` need nothing, `third` needs `first`, `fourth` needs
`third`, `lonely` needs `second`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from epsilometer.pipeline import INTERRUPTED
from epsilometer.pipeline.ordering import in_order
from epsilometer.runtime.machine import cores
from tests.support.dvc_project import make_project
from tests.support.places import ROOT
from tests.support.processes import at_work, below, command, wait_for_end
from tests.support.waiting import LAST_RESORT, finished, wait_for

WORK = """import os, sys, time
from pathlib import Path
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import say
from epsilometer.pipeline.guard.entry import run

def main(name):
    say(f"at work, {os.environ.get('OMP_NUM_THREADS')} threads")
    meets = {"first": "second", "second": "first"}.get(name)
    Path("begun", name).touch()
    end = time.monotonic() + LAST_RESORT
    while meets and Path("meet").exists() and not Path("begun", meets).exists():
        if time.monotonic() > end:
            raise UserError(f"{meets} did not run at the same time")
        time.sleep(0.02)
    while Path("held", name).exists():
        time.sleep(0.02)
    if Path("fails", name).exists():
        raise UserError("as it was told to")
    Path("data", name).write_text(name)

run(main, sys.argv[1], *sys.argv[1:])
""".replace("LAST_RESORT", str(LAST_RESORT))
NEEDS = {"first": [], "second": [], "third": ["first"], "fourth": ["third"], "lonely": ["second"]}
REPRO = (sys.executable, "-m", "epsilometer.pipeline.repro")


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        self.environment = {**inherited, "PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1"}
        (folder / "work.py").write_text(WORK)
        (folder / ".dvcignore").write_text("__pycache__\n*.partial\n")
        stages = {
            name: {
                "cmd": f"python work.py {name}",
                "deps": ["work.py", *(f"data/{need}" for need in needs)],
                "params": [f"of.{name}"],
                "outs": [f"data/{name}"],
            }
            for name, needs in NEEDS.items()
        }
        (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
        for name in ("begun", "held", "fails"):
            (folder / name).mkdir()
        self.write()
        make_project(folder)

    def write(self, stages: int = 2, **of: int) -> None:
        """Write params.yaml; of: what differs, by stage."""
        settings = {"runtime": {"stages": stages}, "of": dict.fromkeys(NEEDS, 0) | of}
        (self.folder / "params.yaml").write_text(yaml.safe_dump(settings))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The run, in a session of its own as a terminal's is; its output in one stream."""
        for begun in (self.folder / "begun").iterdir():
            begun.unlink()
        return subprocess.Popen(
            [*REPRO, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        said, _ = finished(process)
        assert process.returncode == code, said
        return said

    def mark(self, folder: str, *names: str) -> None:
        """Have these stages, and no others, fail or be held."""
        for file in (self.folder / folder).iterdir():
            file.unlink()
        for name in names:
            (self.folder / folder / name).touch()

    def begun(self) -> set[str]:
        return {file.name for file in (self.folder / "begun").iterdir()}

    def started(self, process: subprocess.Popen[str], *names: str) -> list[psutil.Process]:
        """All that it has started, once these stages are at work."""
        wait_for(f"{', '.join(names)} at work", lambda: self.begun() >= {*names}, runs=process)
        processes = below(process)
        assert all(any(f"work.py {name}" in command(p) for p in processes) for name in names)
        return processes

    def is_up_to_date(self) -> bool:
        said = self.run()
        return said.count("didn't change, skipping") == len(NEEDS) and "Running" not in said


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("side"))


@pytest.fixture
def project(shared: Project) -> Project:
    """With nothing done yet."""
    for name in ("data", ".dvc/cache", "dvc.lock"):
        path = shared.folder / name
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    for folder in ("fails", "held"):
        shared.mark(folder)
    shared.write()
    return shared


def events(needs: dict[str, list[str]], at_once: int, fails: tuple[str, ...] = ()) -> list[str]:
    """What begins (+) and ends (-) in which order, where the one that began first ends first."""
    order: list[str] = []
    running: list[str] = []

    def start(stage: str) -> None:
        order.append(f"+{stage}")
        running.append(stage)

    def ended() -> tuple[str, bool]:
        order.append(f"-{running[0]}")
        return running[0], running.pop(0) not in fails

    failed, left = in_order(needs, at_once, start, ended)
    assert failed == [*fails]
    assert {f"+{stage}" for stage in needs} - {*order} == {f"+{stage}" for stage in left}
    return order


def test_the_longest_chain_is_begun_first() -> None:
    needs: dict[str, list[str]] = {"short": [], "a": [], "b": ["a"], "c": ["b"], "alone": []}
    one_by_one = ["a", "b", "short", "alone", "c"]
    assert events(needs, 1) == [sign + stage for stage in one_by_one for sign in "+-"]
    assert " ".join(events(needs, 2)) == "+a +short -a +b -short +alone -b +c -alone -c"


def test_what_depends_on_a_failure_is_left_out_and_all_else_is_run() -> None:
    order = events(NEEDS, 2, fails=("first",))
    assert {"+second", "+lonely"} < {*order}
    assert not {"+third", "+fourth"} & {*order}


def test_two_run_at_the_same_time_and_their_lines_bear_their_names(project: Project) -> None:
    (project.folder / "meet").touch()
    said = project.run().splitlines()
    (project.folder / "meet").unlink()
    for name in NEEDS:
        begun = said.index(f"Running stage '{name}':")
        assert said.index(f"{name}: > python work.py {name}") > begun
        assert f"{name}: at work, {max(1, cores() // 2)} threads" in said
    assert all("'" in line or re.match(rf"({'|'.join(NEEDS)}): ", line) for line in said if line)
    assert not any("dvc push" in line for line in said)
    assert project.is_up_to_date()


@pytest.mark.slow
def test_one_at_a_time_is_what_dvc_does(project: Project) -> None:
    """It has the lines of DVC, and its record in the same bytes."""
    project.run()
    record = (project.folder / "dvc.lock").read_bytes()
    project.write(stages=1)
    shutil.rmtree(project.folder / "data")
    (project.folder / "dvc.lock").unlink()
    said = project.run()
    assert "first: " not in said
    assert (project.folder / "dvc.lock").read_bytes() == record


@pytest.mark.slow
def test_targets_with_what_they_need_and_options_as_dvc_takes_them(project: Project) -> None:
    said = project.run("third", "second")
    assert project.begun() == {"first", "second", "third"}
    assert "third: > python work.py third" in said
    assert "Running stage 'fourth'" in project.run("--single-item", "fourth")
    assert project.begun() == {"fourth"}
    assert "ERROR: Stage 'nowhere' not found" in project.run("nowhere", code=255)


@pytest.mark.slow
def test_only_what_is_stale_is_run_and_reasons_are_said(project: Project) -> None:
    project.run()
    project.write(first=1, second=1)
    said = project.run()
    assert project.begun() == {"first", "second"}, "what they made came out with the same bytes"
    assert "first: why: setting of.first: 0 before, 1 now" in said
    assert "Stage 'third' didn't change, skipping" in said


@pytest.mark.slow
def test_a_failure_is_said_last_and_others_go_on(project: Project) -> None:
    project.mark("fails", "first")
    said = project.run(code=255)
    assert project.begun() == {"first", "second", "lonely"}
    *_, before, last = said.splitlines()
    assert last == "error: failed: first; not run because of that: third, fourth"
    assert before == "  ERROR: failed to reproduce 'first': failed to run: python work.py first, exited with 2"
    assert said.count("error: as it was told to") == 2
    project.mark("fails")
    project.run()
    assert project.begun() == {"first", "third", "fourth"}
    assert project.is_up_to_date()


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_one_line_and_the_next_run_goes_on(project: Project) -> None:
    project.mark("held", "first", "second")
    process = project.start()
    started = project.started(process, "first", "second")
    os.killpg(process.pid, signal.SIGINT)
    said, _ = finished(process)
    assert process.returncode == 130
    assert said.splitlines()[-1] == INTERRUPTED
    assert said.count("interrupt") == 1
    assert "Traceback" not in said
    assert "ERROR" not in said
    assert not any(map(at_work, started))
    project.mark("held")
    project.run()
    assert project.begun() == {*NEEDS}


@pytest.mark.slow
def test_who_stops_reading_ends_the_run(project: Project) -> None:
    project.mark("held", "first", "second")
    process = project.start()
    started = project.started(process, "first", "second")
    assert process.stdout is not None
    process.stdout.close()
    project.mark("held")
    assert process.wait(LAST_RESORT) == 128 + signal.SIGPIPE
    wait_for_end(started)
    assert project.begun() <= {"first", "second", "third", "lonely"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_run_has_started_ends_with_it(project: Project, number: signal.Signals) -> None:
    project.mark("held", "third", "second")
    process = project.start()
    started = project.started(process, "third", "second")
    process.send_signal(number)
    process.wait()
    wait_for_end(started)  # while both are held
    finished(process)
    project.mark("held")
    project.run()
    assert project.begun() == {"second", "third", "fourth", "lonely"}, "what was finished is kept"
    assert project.is_up_to_date()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["stage", "its DVC"])
def test_a_killed_stage_is_a_failure(project: Project, which: str) -> None:
    project.mark("held", "first")
    process = project.start()
    started = project.started(process, "first")
    (stage,) = (p for p in started if p.name().startswith("python") and "work.py first" in command(p))
    parents = [p for p in stage.parents() if p in started]
    (stage if which == "stage" else parents[-1]).kill()
    said, _ = finished(process)
    assert process.returncode != 0
    assert "error: failed: first; not run because of that: third, fourth" in said
    wait_for_end(started)
