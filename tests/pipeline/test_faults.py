"""Damaged files, full and read-only disks, concurrent runs, wrong clocks and signals: no result is lost or wrong.

The tests run on a project of two stages: `make` writes a file of each kind, `use` reads them. test_kills has kill -9.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer import cli
from epsilometer.core import tables
from epsilometer.models import embedded as resources
from epsilometer.models.bounds import store
from epsilometer.models.locate import locate
from epsilometer.pipeline import INTERRUPTED, RUNNER, checking, params
from epsilometer.pipeline.dvc_files import digest, listed
from epsilometer.pipeline.opening import opened
from epsilometer.pipeline.repro import put_in_order, repair
from epsilometer.pipeline.stages import model
from epsilometer.project.site_cache import keep_private
from epsilometer.runtime import checksums
from epsilometer.text.vectors import write_arrays
from tests.support.dvc_project import git, make_project
from tests.support.places import ROOT
from tests.support.processes import below, command, wait_for_end
from tests.support.refusals import refused
from tests.support.sparing import first
from tests.support.toy import Toy
from tests.support.waiting import finished, wait_for
from tests.support.warm import Warm

KINDS = ("x.parquet", "x.npy", "x.npz", "x.safetensors", "folder/x.npy")
MAKE = """import os, time
import numpy as np, polars as pl
from safetensors.numpy import save_file
from pathlib import Path
from epsilometer.core import tables
from epsilometer.runtime.progress import say
from epsilometer.pipeline.guard.entry import run

def main():
    say("at work")
    while os.path.exists("held"):
        time.sleep(0.02)
    numbers = np.random.default_rng(0).normal(size=50_000)
    tables.write(pl.DataFrame({"x": numbers}), "data/x.parquet", {"x": pl.Float64})
    tables.write_array(numbers, "data/x.npy")
    tables.write_array(numbers, "data/folder/x.npy")
    with open("data/x.npz", "wb") as file:
        np.savez(file, numbers)
    save_file({"x": numbers}, "data/x.safetensors")

run(main, "make")
"""
USE = """import os, time
import factor
import numpy as np
from epsilometer.core import tables
from epsilometer.runtime.progress import say
from epsilometer.pipeline.guard.entry import run

def main():
    say("at work")
    total = float(np.load("data/x.npy").sum() + np.load("data/folder/x.npy").sum())
    while os.path.exists("held"):
        time.sleep(0.02)
    tables.write_json(total * factor.FACTOR, "data/sum.json")

run(main, "use")
"""
REPRO = ("python", "-m", "epsilometer.pipeline.repro")
SETTINGS = {"by": "hand", "made": {"by": 1}, "used": {"hand": 1, "foot": 1}}


class Project:
    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder, self.warm = folder, warm
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
            "DVC_NO_ANALYTICS": "1",
        }
        (folder / "weights").mkdir()
        (folder / "weights/model.safetensors").write_bytes(os.urandom(1000))
        checksums.write(folder / "weights")
        files = {"make.py": MAKE, "use.py": USE, "factor.py": "FACTOR = 1\n", ".dvcignore": "__pycache__\n*.partial\n"}
        for name, text in files.items():
            (folder / name).write_text(text)
        stages = {
            "make": {"cmd": "python make.py", "deps": ["make.py"], "params": ["made.by"], "outs": self.outs("make")},
            "use": {
                "cmd": "python use.py",
                "deps": ["use.py", "factor.py", "weights", *self.outs("make")],
                "params": ["used.${by}"],
                "outs": ["data/sum.json"],
            },
        }
        (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
        self.settings(SETTINGS)
        make_project(folder)
        self.run()
        self.outputs = self.results()

    def outs(self, stage: str) -> list[str]:
        return sorted({f"data/{name.split('/')[0]}" for name in KINDS}) if stage == "make" else ["data/sum.json"]

    def settings(self, settings: dict[str, Any]) -> None:
        (self.folder / "params.yaml").write_text(yaml.safe_dump(settings))

    def start(self, *words: str, held: bool = False, **keywords: Any) -> subprocess.Popen[str]:
        """held: whether stages stop after their first line, until `release`."""
        if held:
            (self.folder / "held").touch()
        return subprocess.Popen(
            words or REPRO,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **keywords,
        )

    def release(self) -> None:
        (self.folder / "held").unlink(missing_ok=True)

    def run(self, *words: str, fails: bool = False) -> str:
        self.release()
        words = words or REPRO
        if self.warm.runs(words):
            code, said = self.warm.run(words, self.folder, self.environment)
        else:
            process = self.start(*words)
            said, _ = finished(process)
            code = process.returncode
        assert bool(code) == fails, said
        return said

    def results(self) -> dict[str, bytes]:
        names = ["dvc.lock", "data/sum.json", *(f"data/{name}" for name in KINDS)]
        return {name: (self.folder / name).read_bytes() for name in names}

    def cached(self, name: str) -> Path:
        """Where DVC's cache has this file."""
        md5 = digest(str(self.folder / name))
        return self.folder / ".dvc/cache/files/md5" / md5[:2] / md5[2:]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Project:
    return Project(tmp_path_factory.mktemp("faults"), warm)


def flip(path: Path) -> None:
    """Change one bit as a failing disk does: size, times and inode stay."""
    status = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        (byte,) = file.read(1)
        file.seek(status.st_size // 2)
        file.write(bytes([byte ^ 1]))
    path.chmod(status.st_mode)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_damaged_outputs_are_named_and_made_anew(project: Project) -> None:
    for name in KINDS[1:]:
        flip(project.folder / "data" / name)
    assert "up to date" in project.run("dvc", "repro", "--dry"), "DVC itself does not see it"
    os.truncate(project.folder / "data/x.parquet", 100)
    said = project.run()
    for out in project.outs("make"):
        assert f"note: {out} differs from its record in dvc.lock" in said
    assert project.results() == project.outputs


def test_damaged_files_in_the_cache_are_named_and_not_used(project: Project) -> None:
    cached = {project.cached(f"data/{name}") for name in KINDS}
    for file in cached:
        flip(file)
    for name in KINDS:
        (project.folder / "data" / name).unlink()
    said = project.run()
    (first, *_) = re.findall("corrupted cache file '(.*)'", said)
    assert Path(first) in cached
    assert "Running stage 'make'" in said
    assert project.results() == project.outputs
    assert all(digest(str(file)) == file.parent.name + file.name for file in cached)


def test_plain_dvc_repro_refuses_damaged_inputs(project: Project) -> None:
    """What DVC links back from a damaged cache, or finds damaged, never goes through a stage."""
    flip(project.folder / "data/x.npy")
    refused = "error: data/x.npy is damaged: its bytes differ from its record in dvc.lock"
    assert refused in project.run("dvc", "repro", "--force", "--single-item", "use", fails=True)
    project.run()
    flip(project.cached("data/x.npz"))
    (project.folder / "data/x.npz").unlink()
    project.settings(SETTINGS | {"used": {"hand": 2, "foot": 1}})
    said = project.run("dvc", "repro", fails=True)
    assert "Stage 'make' is cached - skipping run, checking out outputs" in said
    assert "error: data/x.npz is damaged" in said
    project.settings(SETTINGS)
    project.run()
    assert project.results() == project.outputs


def test_damaged_listings_and_weights(project: Project) -> None:
    (listing,) = (project.folder / ".dvc/cache/files/md5").glob("*/*.dir")
    flip(listing)
    said = project.run()
    assert "a listing in DVC's cache, is damaged; deleted" in said
    assert project.results() == project.outputs
    weights = project.folder / "weights/model.safetensors"
    flip(weights)
    os.utime(weights)  # DVC notices the change, and treats the file as a new version
    said = project.run(fails=True)
    assert f"error: {weights} is missing or damaged" in said
    flip(weights)
    os.utime(weights)
    project.run()
    assert project.results() == project.outputs


def memory(project: Project, name: str = "hashes/local") -> Path:
    (file,) = (project.folder / ".dvc-site/repo").glob(f"*/{name}/cache.db")
    return file


@pytest.mark.parametrize(
    "pattern", [".dvc-site/repo/*/hashes/local/cache.db", ".dvc-site/repo/*/links/cache.db", ".dvc/tmp/rwlock"]
)
@pytest.mark.parametrize("text", [b"\xff\x00" * 5000, b""], ids=["garbage", "nothing"])
def test_bookkeeping_that_cannot_be_read_is_named_and_made_again(project: Project, pattern: str, text: bytes) -> None:
    (project.folder / ".dvc/tmp/rwlock").touch()
    (file,) = project.folder.glob(pattern)
    for beside in file.parent.glob("cache.db-*"):
        beside.unlink()
    file.write_bytes(text)
    said = project.run()
    assert re.search(r"is damaged; (it is )?deleted", said) or (
        text == b"" and "cache.db" in pattern
    )  # an empty database is a new one
    assert "Running stage" not in said
    assert project.results() == project.outputs


@pytest.mark.slow
def test_a_bit_that_flips_in_the_memory_of_hashes_changes_no_run(project: Project) -> None:
    """Each of 12 flips: DVC never reads the memory of an earlier run."""
    draw = random.Random(35)
    for _ in range(12):
        with sqlite3.connect(memory(project)) as whole:
            whole.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        whole.close()
        content = bytearray(memory(project).read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        memory(project).write_bytes(content)
        said = project.run()
        assert "Running stage" not in said
        assert "Traceback" not in said
        assert project.results() == project.outputs


def test_a_wrong_hash_that_dvc_remembers_is_never_believed(project: Project) -> None:
    """Of an input, DVC would run the stage that reads it, and record the hash in dvc.lock."""
    with sqlite3.connect(memory(project)) as database:
        (value,) = database.execute("SELECT value FROM Cache WHERE key LIKE '%/factor.py'").fetchone()
        md5 = json.loads(value)["hash_info"]["md5"]
        wrong = value.replace(md5, ("1" if md5[0] == "0" else "0") + md5[1:])
        database.execute("UPDATE Cache SET value = ? WHERE value = ?", (wrong, value))
    database.close()
    assert "factor.py" in project.run("dvc", "status"), "DVC itself believes it"
    said = project.run()
    assert "Running stage" not in said
    assert project.results() == project.outputs


def test_the_memory_stays_while_a_plain_dvc_runs_a_stage(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """That DVC goes on to use it after the stage."""
    monkeypatch.chdir(project.folder)
    process = project.start("dvc", "repro", "--force", "--single-item", "use", held=True)
    assert process.stdout is not None
    assert any(line == "at work\n" for line in process.stdout)
    (mark := memory(project).with_name("mark")).touch()
    repair(opened(), Path(), lambda _: None).close()
    assert mark.exists()
    project.release()
    finished(process)
    assert process.returncode == 0
    project.run()
    assert not mark.exists()
    assert project.results() == project.outputs


def test_a_damaged_record_of_an_earlier_run_is_named_and_made_again(project: Project) -> None:
    """DVC restores outputs by it where dvc.lock is lost, and then says for ever that they do not exist."""
    for record in (project.folder / ".dvc/cache/runs").glob("??/*/*"):
        text = record.read_text()
        at = text.index("md5: ", text.index("outs:")) + 5
        record.write_text(text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :])
    (project.folder / "dvc.lock").unlink()
    said = project.run()
    assert "DVC's record of an earlier run, is damaged; deleted" in said
    assert project.results() == project.outputs


@pytest.mark.parametrize("name", ["dvc.lock", ".dvc/tmp/epsilometer.lock"])
def test_other_records_that_are_garbage(project: Project, name: str) -> None:
    (project.folder / name).write_bytes(b"\xff\x00" * 50)
    said = project.run()
    assert "Traceback" not in said
    assert project.results() == project.outputs


def test_a_merge_conflict_in_the_record(project: Project) -> None:
    lock = project.folder / "dvc.lock"
    record = lock.read_text()
    lock.write_text(f"<<<<<<< HEAD\n{record}=======\n{record}>>>>>>> other\n")
    said = project.run()
    assert "Traceback" not in said
    assert "moved to .dvc/tmp/dvc.lock.damaged" in said
    assert project.results() == project.outputs


def test_the_embedded_weights_are_those_that_are_stated(tmp_path: Path) -> None:
    models = ROOT / "data/embedded/models"
    checksums.check(models)
    stated = {line.split()[1] for line in (models / checksums.NAME).read_text().splitlines()}
    files = {path for path in models.rglob("*") if path.is_file() and path.name not in ("README.md", checksums.NAME)}
    assert stated == {path.relative_to(models).as_posix() for path in files}
    shutil.copy(models / checksums.NAME, tmp_path)
    shutil.copytree(models / "minilm-heads", tmp_path / "minilm-heads")
    checksums.check(tmp_path / "minilm-heads")
    os.truncate(tmp_path / "minilm-heads/heads.safetensors", 2_000_000)
    with refused("EPS-C077"):
        checksums.check(tmp_path / "minilm-heads")
    with refused("EPS-C077"):
        checksums.check(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "bounds.json", "model.safetensors", "tokenizer.json"])
def test_a_bit_that_flips_in_any_file_of_a_model_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of one that was fetched, and of one that a stage has made, also where no stage reads it."""
    snapshot = tmp_path / "cache/models--some--model/snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        shutil.copy(ROOT / "data/embedded/models/judge" / file, snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    pin = {"model": "some/model", "revision": "a" * 40, "low": -1, "high": 1}
    Path("pin.json").write_text(json.dumps(pin))
    settings = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text()) | {"models": {"mine": "pin.json"}}
    Path("params.yaml").write_text(yaml.safe_dump(settings))
    model.main("mine")
    model_folder = Path("data/models/mine")
    for folder, place in ((f"some/model@{'a' * 40}", snapshot), (str(model_folder), model_folder)):
        if not (place / name).exists():
            continue
        locate(folder)
        flip(place / name)
        os.utime(place / name)
        with refused("EPS-C077", name):
            locate(folder)


def test_bounds_that_are_measured_again_are_stated_again(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "data/embedded/models/judge", tmp_path / "judge")
    checksums.write(tmp_path)
    store(tmp_path / "judge", {"low": -1, "high": 1})
    assert "judge/bounds.json" in (tmp_path / checksums.NAME).read_text()
    checksums.check(tmp_path)
    flip(tmp_path / "judge/bounds.json")
    os.utime(tmp_path / "judge/bounds.json")
    with refused("EPS-C077"):
        checksums.check(tmp_path / "judge")


def test_hash_and_lists_are_dvcs(tmp_path: Path) -> None:
    deps, params = listed("attack@queries-tem", yaml.safe_load((ROOT / "profiles/generated.yaml").read_text()))
    records = {"data/code/attack/queries-tem.json", "data/resources/cells/queries-tem.json"}
    assert {"data/rewrites/queries-tem", *records} <= set(deps)
    assert {"audit.seed", "cells.queries-tem", "datasets.queries.use"} <= set(params)
    (tmp_path / "b").mkdir()
    for name in ("b/y", "a", "c.partial"):
        (tmp_path / name).write_text("x")
    assert digest(str(tmp_path)) == "360f7d8033924685c712eeacabdefd5b.dir"  # as `dvc add` records it


def test_the_record_of_stages_is_in_order(project: Project, tmp_path: Path) -> None:
    """DVC appends stages as they end; a flow that was killed ends them in another order."""
    lock = project.folder / "dvc.lock"
    _, first, second = re.split("^(?=  (?:make|use):)", lock.read_text(), flags=re.MULTILINE)
    lock.write_text(lock.read_text().replace(first + second, second + first))
    assert lock.read_bytes() != project.outputs["dvc.lock"]
    project.run()
    assert project.results() == project.outputs
    other = tmp_path / "dvc.lock"
    other.write_text("schema: '2.0'\nstages:\n  b@x:\n    cmd: b\n  a:\n    deps:\n    - path: c\ndatasets: []\n")
    put_in_order(other)
    assert other.read_text() == (
        "schema: '2.0'\nstages:\n  a:\n    deps:\n    - path: c\n  b@x:\n    cmd: b\ndatasets: []\n"
    )
    put_in_order(tmp_path / "none.lock")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["dvc.yaml", "params.yaml"])
def test_a_checkout_while_a_stage_runs_is_one_message(project: Project, what: str) -> None:
    """For a moment the file is not there."""
    path, aside = project.folder / what, project.folder / "aside"
    process = project.start(*REPRO, "--force", held=True)
    assert process.stdout is not None
    assert any(line == "at work\n" for line in process.stdout)
    path.rename(aside)
    project.release()
    said, _ = finished(process)
    aside.rename(path)
    assert process.returncode != 0
    assert "Traceback" not in said
    assert f"{what} is gone" in said or "does not exist" in said
    project.run()
    assert project.results() == project.outputs


@pytest.mark.slow
@pytest.mark.parametrize("there_and_back", [False, True])
@pytest.mark.parametrize("held", ["make", "use"])
def test_a_git_checkout_while_a_stage_runs_records_no_new_code_for_old_results(
    project: Project, held: str, there_and_back: bool
) -> None:
    """A commit with other code, another parameter and another dvc.lock: a later run of either ends with its bytes."""
    folder = project.folder
    tracked = ("make.py", "factor.py", "params.yaml", "dvc.yaml", "dvc.lock")

    def commit(branch: str) -> dict[str, bytes]:
        git(folder, "checkout", "-q", "-B", branch)
        project.run()
        git(folder, "add", "-f", *tracked)
        git(folder, "commit", "-q", "-m", branch, "--allow-empty")
        return project.results()

    def check(branch: str, results: dict[str, bytes]) -> None:
        git(folder, "checkout", "-q", "-f", branch)
        project.run()
        assert project.results() == results
        assert not git(folder, "status", "--porcelain", *tracked)

    assert commit("old") == project.outputs
    for name, before, after in (("make.py", "default_rng(0)", "default_rng(1)"), ("factor.py", "1", "7")):
        (folder / name).write_text((folder / name).read_text().replace(before, after))
    project.settings(SETTINGS | {"made": {"by": 2}, "used": {"hand": 2, "foot": 1}})
    new = commit("new")
    assert new != project.outputs
    check("old", project.outputs)
    process = project.start("dvc", "repro", "--force", "--single-item", held, held=True)
    assert process.stdout is not None
    assert any(line == "at work\n" for line in process.stdout), "it has looked at its inputs"
    git(folder, "checkout", "-q", "-f", "new")
    if there_and_back:
        git(folder, "checkout", "-q", "-f", "old")
    project.release()
    said, _ = finished(process)
    assert process.returncode != 0, said
    assert "error: edited while this stage was running: " in said
    check("new", new)
    check("old", project.outputs)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_a_line_that_says_how_to_go_on(project: Project) -> None:
    held = open(project.folder / ".dvc/tmp/epsilometer.lock", "a+")  # noqa: SIM115 - until the end of the test
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = project.start()
        assert process.stdout is not None
        assert any("waiting for its end" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        said, _ = finished(process)
    assert process.returncode == 130
    assert said == f"{INTERRUPTED}\n"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_inside_a_stage_is_that_line_alone(project: Project) -> None:
    """To all processes of the terminal, as Ctrl-C is: neither the stage nor DVC adds a line."""
    process = project.start(*REPRO, "--force", held=True, start_new_session=True)
    assert process.stdout is not None
    assert any(line == "at work\n" for line in process.stdout)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = finished(process)
    assert process.returncode == 130
    assert said == f"{INTERRUPTED}\n"
    project.run()
    assert project.results() == project.outputs


@pytest.mark.parametrize("below", [False, True])
def test_ctrl_c_while_modules_load_is_one_line_too(below: bool) -> None:
    """Which a stage leaves to the run that started it."""
    code = "import epsilometer.pipeline; raise KeyboardInterrupt"
    environment = os.environ | ({RUNNER: "1"} if below else {})
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == ("" if below else f"{INTERRUPTED}\n")


@pytest.mark.slow
def test_two_at_once(project: Project) -> None:
    """The second waits, says for whom, and finds all done."""
    (project.folder / "data/sum.json").unlink()
    first = project.start(*REPRO, "--force", held=True)
    assert first.stdout is not None
    assert any("Running stage 'make'" in line for line in first.stdout)
    second = project.start(held=True)
    assert second.stdout is not None
    assert any(
        line.startswith(f"note: another run of this project is under way (process {first.pid}: ")
        for line in second.stdout
    )
    project.release()
    said, _ = finished(second)
    rest, _ = finished(first)
    assert (first.returncode, second.returncode) == (0, 0), rest + said
    assert "Running stage" not in said
    assert project.results() == project.outputs


@pytest.mark.slow
def test_clocks_that_go_wrong(project: Project) -> None:
    """Content decides, whatever the times say: of sources, of compiled modules, of outputs."""

    def total() -> float:
        return float((project.folder / "data/sum.json").read_text())

    before, factor = total(), project.folder / "factor.py"
    for number, time_of_change in ((2, 0), (3, 4_000_000_000)):  # 1970, 2096
        factor.write_text(f"FACTOR = {number}\n")
        os.utime(factor, (time_of_change, time_of_change))
        assert "Running stage 'use'" in project.run("dvc", "repro")
        assert total() == pytest.approx(number * before)
    with factor.open("r+") as file:  # size, inode and time do not change, so neither DVC nor Python notices
        file.write("FACTOR = 4\n")
    os.utime(factor, (4_000_000_000, 4_000_000_000))
    assert "Running stage" not in project.run("dvc", "repro")
    assert "Running stage 'use'" in project.run()
    assert total() == pytest.approx(4 * before)
    for name in ("x.npy", "sum.json"):
        os.utime(project.folder / "data" / name, (0, 0))
    assert "Running stage" not in project.run()
    factor.write_text("FACTOR = 1\n")
    project.run()
    assert project.results() == project.outputs


def test_set_up_goes_by_content(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements").mkdir()
    names = ("pyproject.toml", "constraints.txt", *(f"requirements/{name}.lock" for name in ("audit", "test", "uv")))
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.ready-audit").write_text("".join(names))
    make = ["make", "setup", "PYTHON=false"]
    os.utime(tmp_path / "pyproject.toml", (4_000_000_000, 4_000_000_000))
    assert subprocess.run(make, cwd=tmp_path, capture_output=True).returncode == 0
    larger = ["make", "setup-test", "PYTHON=false"]
    assert subprocess.run(larger, cwd=tmp_path, capture_output=True).returncode != 0, "tests need more than audits"
    (tmp_path / "pyproject.toml").write_text("pyproject.tomX")
    os.utime(tmp_path / "pyproject.toml", (0, 0))
    assert subprocess.run(make, cwd=tmp_path, capture_output=True).returncode != 0, "it must install again"


@pytest.mark.parametrize("what", first(1, ["factor.py", "params.yaml"]))
def test_what_is_edited_while_a_stage_runs_is_not_recorded_as_read(project: Project, what: str) -> None:
    path = project.folder / what
    good = path.read_text()
    process = project.start("dvc", "repro", "--force", "--single-item", "use", held=True)
    assert process.stdout is not None
    assert any(line == "at work\n" for line in process.stdout), "it has looked at its inputs"
    if what == "params.yaml":
        project.settings(SETTINGS | {"used": {"hand": 2, "foot": 1}})
    else:
        path.write_text("FACTOR = 7\n")
    project.release()
    said, _ = finished(process)
    named = "params.yaml: used.hand" if what == "params.yaml" else what
    assert process.returncode != 0, said
    assert f"error: edited while this stage was running: {named};" in said
    if what == "params.yaml":  # a change that affects only another stage
        project.settings(SETTINGS | {"used": {"hand": 1, "foot": 2}})
    path.write_text(good)
    project.run()
    assert project.results() == project.outputs


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount file systems: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount("-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path))
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def _table(path: Path, count: int) -> None:
    tables.write(pl.DataFrame({"x": np.random.default_rng(0).normal(size=count)}), path, {"x": pl.Float64})


def _array(path: Path, count: int) -> None:
    tables.write_array(np.zeros(count), path)


def _latents(path: Path, count: int) -> None:
    with tables.ArrayWriter(path, count) as writer:
        writer.write(np.arange(count), np.ones((count, 2), np.float32))


def _json(path: Path, count: int) -> None:
    tables.write_json(list(range(count)), path)


@pytest.mark.parametrize("write", [_table, _array, _latents, _json])
def test_a_full_disk_leaves_the_earlier_file(small_disk: Path, write: Callable[[Path, int], None]) -> None:
    path = small_disk / "x"
    write(path, 1000)
    before = path.read_bytes()
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        write(path, 200_000)
    assert path.read_bytes() == before
    assert [file.name for file in small_disk.iterdir()] == ["x"]


@pytest.mark.parametrize("name", ["vectors.npz", "lists.npz", "minilm-paraphraser"])
def test_a_full_disk_while_the_library_keeps_what_it_has_made(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(small_disk))

    def make() -> Path:
        return resources.cached(name, "word vectors", lambda out: write_arrays(out, words=np.zeros(1 << 20)))

    if name == "minilm-paraphraser":
        make = resources.paraphraser
    with refused("EPS-N026", name):
        make()
    assert not [path for path in small_disk.rglob("*") if path.is_file() or "partial" in path.name]


def test_the_command_line_says_what_the_disk_answered(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*_: object) -> None:
        (small_disk / "x").write_bytes(bytes(1 << 20))

    monkeypatch.setattr(checking, "check", check)
    with pytest.raises(SystemExit) as end:
        cli.main(["check", "params", str(ROOT / "profiles/generated.yaml")])
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: no space is left on the disk; free some space, then run again\n"


def test_a_full_disk_under_data(project: Project) -> None:
    """The stage says what is the matter; when there is space again, the next run goes on."""
    data, file = project.folder / "data", project.cached("data/x.npy")
    mount("-t", "tmpfs", "-o", "size=700k", "tmpfs", str(data))
    try:
        said = project.run(*REPRO, "--force", fails=True)
        assert "error: make: no space is left on the disk; free some space, then run again" in said
        assert file.read_bytes() == project.outputs["data/x.npy"]
        mount("-o", "remount,size=64m", "tmpfs", str(data))
        project.run()
        assert project.results() == project.outputs
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(100, id="before", marks=pytest.mark.slow),
        pytest.param(900, id="stage"),
        pytest.param(2450, id="dvc", marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_is_full_with_all_that_dvc_has_on_it(project: Project, tmp_path: Path, room: int) -> None:
    """One line, whoever meets it; nothing half copied stays, of which DVC would count two files of an output as four.

    room: kB for what is made and copied, 2,000 and as many again.
    """
    mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(tmp_path))
    try:
        shutil.copytree(project.folder, tmp_path, dirs_exist_ok=True)
        for name in ("data", ".dvc/cache", ".dvc-site/repo"):
            shutil.rmtree(tmp_path / name)
        (tmp_path / "dvc.lock").unlink()
        moved = copy(project)
        moved.folder = tmp_path
        moved.environment = project.environment | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
        keep_private(tmp_path)
        used = shutil.disk_usage(tmp_path).used
        mount("-o", f"remount,size={used + (room << 10)}", "tmpfs", str(tmp_path))
        said = moved.run(fails=True)
        assert "no space is left on the disk; free some space, then run again" in said
        assert "Traceback" not in said
        assert not [*tmp_path.rglob("*.tmp")]
        mount("-o", "remount,size=64m", "tmpfs", str(tmp_path))
        moved.run()
        assert moved.results().keys() == project.outputs.keys()
        assert {name for name, content in moved.results().items() if content != project.outputs[name]} == set()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_what_dvc_had_begun_to_copy_into_an_output_is_no_part_of_it(project: Project) -> None:
    begun = [project.folder / "data/folder" / f".{'x' * 22}.tmp", project.folder / f"data/folder/x.npy.{'_' * 22}.tmp"]
    for file in begun:
        file.write_bytes(b"half")
    (project.folder / "data/sum.json").unlink()
    assert "Running stage" not in project.run()
    assert not any(file.exists() for file in begun)
    assert project.results() == project.outputs


@pytest.mark.slow
def test_a_limit_on_the_size_of_files(project: Project) -> None:
    """The same where nothing may be mounted: a file may not grow beyond 100 kB, in the stage alone or in DVC too."""
    said = project.run("sh", "-c", "ulimit -f 200; exec python make.py", fails=True)
    assert "error: make: a file exceeds the limit on file sizes (ulimit -f)" in said
    said = project.run("sh", "-c", "ulimit -f 200; exec python -m epsilometer.pipeline.repro --force", fails=True)
    assert "disk I/O error" in said, "of SQLite, which DVC uses"
    assert "Traceback" not in said
    project.run()
    assert project.results() == project.outputs


@pytest.mark.parametrize("how", first(2, ["epsilometer.pipeline.repro", "dvc", "stage"]))
def test_sigterm(project: Project, how: str) -> None:
    """It ends while the stage is held, nothing is left running, and the next run goes on."""
    words = {
        "epsilometer.pipeline.repro": (*REPRO, "--force"),
        "dvc": ("dvc", "repro", "--force"),
        "stage": ("dvc", "repro", "--force"),
    }[how]
    process = project.start(*words, held=True)

    def stages() -> list[Any]:
        return [p for p in below(process) if "python make.py" in command(p)]

    assert process.stdout is not None
    assert any(line == "at work\n" for line in process.stdout)
    started = below(process)
    (stages()[-1] if how == "stage" else process).send_signal(signal.SIGTERM)
    finished(process)
    assert process.returncode != 0
    wait_for_end(started)
    project.run()
    assert project.results() == project.outputs


HELD = """import os, time
from epsilometer.runtime.progress import say

def rewrite(text, epsilon, rng):
    say("at work")
    while os.path.exists("held"):
        time.sleep(0.02)
    return text[: int(4 * rng.random())]
"""


@pytest.mark.slow
def test_sigterm_to_make(tmp_path: Path) -> None:
    """By the recipe of the Makefile, whose command checks params.yaml first: a project with parameters of its own."""
    recipe = re.search(r"exec (epsilometer pipeline repro)\n", (ROOT / "Makefile").read_text())
    assert recipe
    toy = Toy(tmp_path / "toy")
    (toy.folder / "Makefile").write_text(f"audit:\n\t@cd . && true && exec {recipe[1]} dvc.yaml\n")
    (toy.folder / "mine.py").write_text(HELD)
    toy.run("make", "audit")
    expected = toy.results()
    (toy.folder / "held").touch()
    for name in ("data/rewrites", "data/guesses", ".dvc/cache"):
        shutil.rmtree(toy.folder / name)
    process = toy.start("make", "audit")
    wait_for("the stage", lambda: any("stage rewrite" in command(p) for p in below(process)), runs=process)
    started = below(process)
    process.terminate()
    finished(process)
    assert process.returncode != 0
    wait_for_end(started)
    (toy.folder / "held").unlink()
    toy.run("make", "audit")
    assert toy.results() == expected


def test_a_read_only_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before work starts: which folder, what it must be, why it is not, what to do."""
    monkeypatch.chdir(tmp_path)
    Path("data/guesses").mkdir(parents=True)
    mount("--bind", "data/guesses", "data/guesses")
    try:
        mount("-o", "remount,bind,ro", "data/guesses")
        settings = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
        with refused("EPS-P010", f"{tmp_path}/data/guesses", "Read-only file system"):
            checking.check(params.params_type().model_validate(settings | {"root": str(ROOT)}))
    finally:
        subprocess.run(["umount", "data/guesses"], check=True)
