"""The commit at which an audit ran, and whether files differ from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from epsilometer.project.commit import commit


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit of a mechanism, and of what an audit itself writes, in a run's folder too."""
    for path in ("mine.py", "dvc.lock", "runs/x/dvc.lock", "runs/x/baseline/history.csv", "sources/a.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("folder", [".", "runs/x"])
def test_what_an_audit_writes_is_no_edit(repository: Path, folder: str) -> None:
    head = git(repository, "rev-parse", "HEAD")
    for path in (
        "dvc.lock",
        "runs/x/dvc.lock",
        "runs/x/baseline/history.csv",
        "runs/x/data/leaderboard/a.parquet",
        "sources/a.json",
        "reports/figures/a.svg",
    ):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text("2")
    assert commit(repository / folder) == (head, False)
    assert commit(repository / folder).short == head[:12]


@pytest.mark.parametrize("folder", [".", "runs/x"])
@pytest.mark.parametrize("path", ["mine.py", "unknown_to_git.py"])
def test_an_edit_counts_and_a_new_file_does(repository: Path, folder: str, path: str) -> None:
    """A mechanism that git does not know can have been audited just as one that was edited."""
    (repository / path).write_text("2")
    assert commit(repository / folder) == (git(repository, "rev-parse", "HEAD"), True)
    assert commit(repository / folder).short.endswith("+")


def test_there_is_no_commit_outside_of_git(tmp_path: Path) -> None:
    assert commit(tmp_path) == ("", False)
    assert commit(tmp_path).short == ""
    git(tmp_path, "init", "-q")
    assert commit(tmp_path).id == ""
