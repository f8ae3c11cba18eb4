"""Locks that only their owner can take, and the note to a process that waits for one."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest

from epsilometer.pipeline.repro import held
from epsilometer.runtime import waiting
from tests.support.dvc_project import make_project
from tests.support.places import ROOT
from tests.support.waiting import LAST_RESORT, wait_for

LINUX = pytest.mark.skipif(not Path("/proc/locks").exists() or not which("flock"), reason="needs Linux's locks")


@contextmanager
def locker(path: Path, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that has locked a file which it may only read."""
    command = [
        "flock",
        "--shared",
        "--close",
        str(path),
        "sleep",
        f"{LAST_RESORT:g}",
    ]  # another user may not run our Python
    with subprocess.Popen(command, text=True, user=user) as process:
        try:
            wait_for("the lock", lambda: waiting.holder(path) is not None, runs=process)
            yield process
        finally:
            process.kill()


@LINUX
def test_who_waits_is_told_for_whom(tmp_path: Path) -> None:
    """After a second, for which nothing here waits but the lock, whose holder ends once it was named."""
    path, said = tmp_path / "lock", list[str]()
    path.touch()
    assert waiting.holder(path) is None
    with locker(path) as process, path.open() as file:
        assert waiting.holder(path) == f"process {process.pid}"

        def say(line: str) -> None:
            said.append(line)
            process.kill()

        with waiting.waiting_for(path, say):
            fcntl.flock(file, fcntl.LOCK_EX)
    assert said == [f"waiting for {path}, locked by process {process.pid}"]


def test_locks_of_a_project_are_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / ".dvc/tmp").chmod(0o755)
    lock = tmp_path / ".dvc/tmp/epsilometer.lock"
    lock.touch(0o644)
    monkeypatch.chdir(tmp_path)
    with held(tmp_path, lambda line: None):
        assert lock.stat().st_mode & 0o777 == 0o600
        assert lock.parent.stat().st_mode & 0o777 == 0o700
        if os.geteuid() == 0:  # tries as another user
            tried = subprocess.run(["cat", lock], preexec_fn=lambda: os.setuid(65534), capture_output=True, text=True)
            assert "Permission denied" in tried.stderr


@LINUX
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to be another user")
def test_another_user_who_opened_a_lock_before_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, *(parent for parent in tmp_path.parents if "pytest" in str(parent))):
        folder.chmod(0o755)
    make_project(tmp_path)
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / ".dvc/tmp").chmod(0o755)
    lock, said = tmp_path / ".dvc/tmp/epsilometer.lock", list[str]()
    lock.touch(0o644)
    monkeypatch.chdir(tmp_path)
    with locker(lock, user=65534) as process:

        def say(line: str) -> None:
            said.append(line)
            process.kill()

        with held(tmp_path, say):
            pass
    assert f"(process {process.pid} of user " in said[0]


@LINUX
def test_set_up_waits_aloud_for_a_lock_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    names = ("pyproject.toml", "constraints.txt", *(f"requirements/{name}.lock" for name in ("audit", "test", "uv")))
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.ready-audit").write_text("".join(names))
    lock = tmp_path / ".venv/.setting-up"
    make = ["make", "-f", str(ROOT / "Makefile"), "setup", "PYTHON=false"]
    assert subprocess.run(make, cwd=tmp_path).returncode == 0
    assert lock.stat().st_mode & 0o777 == 0o600
    with locker(lock) as process:
        lock.write_text(f"{process.pid}\n")
        with subprocess.Popen(make, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as waits:
            assert waits.stdout is not None
            assert f"(process {process.pid})" in waits.stdout.readline()
            process.kill()
            assert waits.wait(LAST_RESORT) == 0
    assert lock.read_text().strip().isdigit()
