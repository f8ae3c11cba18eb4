"""A run as another user than the one who installed the environment, as in a container: same results, own files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvc_project import git
from tests.support.toy import Toy

NOBODY = 65534
REPRO = ("python", "-m", "epsilometer.pipeline.repro")
PACKAGES = sysconfig.get_path("purelib")


def as_nobody(toy: Toy, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the project's folder as a user without a name, a home or other rights."""
    environment = toy.environment | {"HOME": "/nonexistent"}
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return subprocess.run(command, cwd=toy.folder, env=environment, **user, capture_output=True, text=True)


def commands(folder: Path) -> None:
    """Write `python`, `dvc` and `epsilometer`, which other users can run with the packages of this environment."""
    folder.mkdir()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin:/bin")):
        with contextlib.suppress(PermissionError):
            test = [python or sys.executable, "-c", f"import sys; sys.path.append({PACKAGES!r}); import polars"]
            done = subprocess.run(test, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True)
            if done.returncode == 0:
                break
    else:
        pytest.skip(f"other users cannot run {version} with the packages of this environment")
    for name, module in (("python", ""), ("dvc", "-m dvc"), ("epsilometer", "-m epsilometer.cli")):
        (folder / name).write_text(f'#!/bin/sh\nexec {python} {module} "$@"\n')
        (folder / name).chmod(0o755)


@pytest.fixture
def toy() -> Iterator[Toy]:
    """A project in a folder that every user may look into; those of pytest are closed to others."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a process as another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        commands(Path(folder, "bin"))
        project = Toy(Path(folder, "toy"))
        project.environment |= {  # for both users, as compressed files depend on Python's build
            "OMP_NUM_THREADS": "1",
            "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{project.folder}{os.pathsep}{PACKAGES}",
        }
        git(project.folder, "add", "--all")
        git(project.folder, "commit", "-q", "-m", "A project")
        yield project


def own(folder: Path, user: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.slow
def test_another_users_run_has_the_same_results(toy: Toy) -> None:
    toy.run(*REPRO)
    results = toy.results()
    subprocess.run(["git", "clean", "-qfdx", "--exclude=data/embedded"], cwd=toy.folder, check=True)
    own(toy.folder, NOBODY)
    done = as_nobody(toy, *REPRO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert toy.results() == results
    assert {path.lstat().st_uid for path in toy.folder.rglob("*")} == {NOBODY}
    assert not Path("/nonexistent").exists()
    status = as_nobody(toy, "dvc", "status", "--json")
    assert status.returncode == 0, status.stdout + status.stderr
    assert json.loads(status.stdout) == {"code": ["always changed"], "resources": ["always changed"]}


@pytest.mark.slow
def test_a_project_of_somebody_else_is_one_message(toy: Toy) -> None:
    """As when a folder is mounted that the container's user may not write to."""
    done = as_nobody(toy, *REPRO)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert {path.lstat().st_uid for path in toy.folder.rglob("*")} == {0}
