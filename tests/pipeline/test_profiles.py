"""Profiles state what differs, and their runs have what DVC's templates need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from epsilometer.core.errors import UserError
from epsilometer.pipeline import composing
from epsilometer.pipeline.params import read
from epsilometer.pipeline.profiles import copy
from tests.support.dvc_project import make_project
from tests.support.places import ROOT

PROFILES = sorted((ROOT / "profiles").glob("*.yaml"))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_a_run_has_every_section_that_dvc_needs(profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = Path("runs/mine/params.yaml")
    copy(profile, out)
    raw = yaml.safe_load(out.read_text())
    looped = set(re.findall(r"foreach: \$\{(\w+)", out.with_name("dvc.yaml").read_text()))
    assert "datasets" in looped
    assert looped <= raw.keys()
    assert raw["root"] == "../.."
    before, after = read(profile), read(out)
    assert after == before.model_copy(update={"root": "../.."})
    assert profile.read_text().startswith("#")
    assert out.read_text().startswith(profile.read_text().partition("\n")[0])  # comments stay
    monkeypatch.chdir(out.parent)
    composing.check(read("params.yaml"))  # as stage `code` does before all others


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_no_profile_states_an_empty_section(profile: Path) -> None:
    raw = yaml.safe_load(profile.read_text())
    assert not [name for name, value in raw.items() if value in ({}, {"labels": {}})]


def test_git_shows_nothing_of_a_run(tmp_path: Path) -> None:
    """And DVC runs stages of which git shows nothing."""
    project = tmp_path / "project"
    make_project(project)
    shutil.copy(ROOT / ".gitignore", project)
    run = project / "runs/mine"
    run.mkdir(parents=True)
    stage = {"cmd": "mkdir -p data reports && echo 1 > data/x && echo 1 > reports/y", "outs": ["data/x"]}
    stage["metrics"] = [{"reports/y": {"cache": False}}]
    (run / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"first": stage}}))
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    subprocess.run([sys.executable, "-m", "epsilometer.pipeline.repro"], cwd=run, check=True, capture_output=True)
    assert (run / "data/x").is_file()
    assert (run / "dvc.lock").is_file()
    assert subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout == b""


def test_what_is_there_already_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = Path("runs/mine/params.yaml")
    copy(PROFILES[0], out)
    before = out.stat().st_mtime_ns, out.stat().st_ino
    copy(PROFILES[0], out)
    assert (out.stat().st_mtime_ns, out.stat().st_ino) == before


def test_an_unknown_profile_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown profile 'atsi'; did you mean 'atis'"):
        copy(ROOT / "profiles/atsi.yaml", tmp_path / "params.yaml")
