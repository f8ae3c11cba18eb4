"""Expectations of DVC users: its commands work in a project, a remote restores everything, and a folder may move."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvc_project import git
from tests.support.toy import STAGES, Toy
from tests.support.warm import Warm

pytestmark = pytest.mark.slow

REPRO = ("python", "-m", "epsilometer.pipeline.repro")
ALL = (*STAGES, "exact", "claims", "similarity", "ceilings", "decide", "ways", "ablations", "report")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Toy:
    """A finished audit, committed."""
    toy = Toy(tmp_path_factory.mktemp("habits") / "toy", stages=ALL, warm=warm)
    leaks = "def rewrite(text, epsilon, rng):\n    return text if rng.random() < 0.5 else 'play'\n"
    (toy.folder / "mine.py").write_text(leaks)
    toy.params["attacks"] = {"lexical": {}}
    toy.write_params()
    embed = toy.folder / "embed.py"  # the file that the report reads
    embed.write_text(embed.read_text().replace("write_json({},", "write_json({'cut': 0},"))
    toy.run(*REPRO)
    commit(toy)
    return toy


def printed(toy: Toy, *command: str) -> Any:
    """The JSON that a command prints, without what it says beside that."""
    said = toy.run("dvc", *command, "--json")
    return json.loads(said[said.index("{") : said.rindex("}") + 1])


def commit(toy: Toy) -> None:
    git(toy.folder, "add", "--all")
    git(toy.folder, "commit", "-q", "-m", "An audit")


def test_status_names_what_is_always_looked_at_alone(audited: Toy) -> None:
    assert printed(audited, "status") == {stage: ["always changed"] for stage in ("code", "resources")}
    assert git(audited.folder, "status", "--porcelain") == ""


def test_metrics_have_a_row_a_cell_and_epsilon(audited: Toy) -> None:
    rows = audited.run("dvc", "metrics", "show", "--md").splitlines()
    assert [row.split("|")[1].strip() for row in rows if "songs-mine" in row] == [
        f"reports/metrics/songs-mine/{epsilon}.json" for epsilon in (1, 5)
    ]
    assert {name.strip() for name in next(row for row in rows if "Path" in row).split("|")} >= {"lexical", "strongest"}


def test_what_differs_from_a_commit_is_shown(audited: Toy) -> None:
    before = (audited.folder / "params.yaml").read_text()
    (audited.folder / "params.yaml").write_text(before.replace("seed: 0", "seed: 1"))
    try:
        (changed,) = printed(audited, "params", "diff", "HEAD").values()
        assert changed["audit.seed"] == {"old": 0, "new": 1, "diff": 1}
        audited.run(*REPRO)
        moved = printed(audited, "metrics", "diff", "HEAD")
        assert {Path(file).parent.name for file in moved} == {"songs-mine"}
    finally:
        git(audited.folder, "checkout", "-q", "--", ".")
        audited.run(*REPRO)


def test_an_experiment_is_run_and_shown(audited: Toy) -> None:
    git(audited.folder, "config", "user.name", "test")
    git(audited.folder, "config", "user.email", "test@example.org")
    before = audited.results()
    audited.run("dvc", "exp", "run", "-S", "audit.seed=2", "--name", "second")
    assert audited.results() != before
    assert "second" in audited.run("dvc", "exp", "list", "--name-only")
    git(audited.folder, "checkout", "-q", "--", ".")
    audited.run(*REPRO)
    assert audited.results() == before


def test_a_remote_gives_back_what_was_pushed(audited: Toy, tmp_path: Path) -> None:
    before = audited.results()
    audited.run("dvc", "remote", "add", "--local", "-d", "shelf", str(tmp_path / "shelf"))
    audited.run("dvc", "push")
    for name in ("data", ".dvc/cache"):
        for path in (audited.folder / name).iterdir():
            if path.name != "embedded":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    audited.run("dvc", "pull")
    assert audited.results() == before
    assert "Running stage" not in audited.run("dvc", "repro", "--dry", "report", "--single-item")


def test_a_moved_project_is_up_to_date(audited: Toy, tmp_path: Path) -> None:
    before = audited.results()
    moved = tmp_path / "elsewhere"
    subprocess.run(["cp", "-a", str(audited.folder), str(moved)], check=True)
    there = Toy.__new__(Toy)
    there.folder, there.warm = moved, audited.warm
    there.environment = audited.environment | {"PYTHONPATH": str(moved), "PREFECT_HOME": str(moved / ".prefect")}
    assert "Running stage" not in there.run(*REPRO)
    assert there.results() == before
