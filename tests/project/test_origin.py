"""The commit by which results in git were measured, and when this is no longer known."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from epsilometer.project import origin

STAGE = "leaderboard_cells@snips-tem-1"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-qm", "first", "--allow-empty"], check=True)
    return tmp_path


def test_results_name_commit_date_and_machine() -> None:
    Path("rows").write_text("1")
    Path("figures").write_text("2")
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    origin.write(STAGE, ["rows", "figures"])
    there = origin.read(STAGE)
    assert there is not None
    assert there.commit == f"{head[:12]}+"  # an untracked file may be the mechanism
    assert "cores" in there.hardware
    assert 0 < there.seconds < 10_000
    assert origin.read("leaderboard_cells@snips-coin-1") is None


def test_it_counts_for_the_bytes_that_were_made() -> None:
    Path("rows").write_text("1")
    origin.write(STAGE, ["rows"])
    assert origin.read(STAGE) is not None
    Path("rows").write_text("2")
    assert origin.read(STAGE) is None
    Path("rows").unlink()
    assert origin.read(STAGE) is None
