"""Profiles state only settings that differ, and their runs have all settings that DVC's templates need."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from epsilometer.pipeline import composing
from epsilometer.pipeline.dvc_files import outs_for_git, settings
from epsilometer.pipeline.params import read
from epsilometer.pipeline.profiles import copy
from epsilometer.project.site_cache import keep_private
from tests.support.dvc_project import make_project
from tests.support.places import ROOT
from tests.support.processes import OUTSIDE
from tests.support.refusals import refused
from tests.support.warm import Warm

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


def test_the_page_lists_every_profile_once() -> None:
    page = (ROOT / "docs/reference/profile-list.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(listed) == [path.stem for path in PROFILES]


def test_git_shows_nothing_of_a_run(tmp_path: Path, warm: Warm) -> None:
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
    repro(warm, run)
    assert (run / "data/x").is_file()
    assert (run / "dvc.lock").is_file()
    assert subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout == b""


def repro(warm: Warm, folder: Path, *stages: str) -> None:
    code, said = warm.run(("python", "-m", "epsilometer.pipeline.repro", *stages), folder, OUTSIDE)
    assert code == 0, said


def test_a_clone_goes_on_where_the_run_of_another_machine_stopped(tmp_path: Path, warm: Warm) -> None:
    """Git has the record and the results without texts; DVC makes texts again, and no cell but one that has changed."""
    project, clone, ran = tmp_path / "project", tmp_path / "clone", tmp_path / "ran"
    make_project(project)
    shutil.copy(ROOT / ".gitignore", project)
    run = project / "runs/leaderboard"
    run.mkdir(parents=True)
    parts, cells = "data/leaderboard_parts/snips", "data/leaderboard"
    stages: dict[str, dict] = {
        "parts": {
            "cmd": f"mkdir -p {parts} && cd {parts} && touch texts.parquet plain.parquet && echo parts >> {ran}",
            "outs": [f"{parts}/texts.parquet", {f"{parts}/plain.parquet": {"cache": False}}],
        }
    }
    for name in ("tem", "coin"):
        stages[name] = {
            "cmd": f"mkdir -p {cells} && cat {name}.py > {cells}/{name}.parquet && echo {name} >> {ran}",
            "deps": [parts, f"{name}.py"],
            "outs": [{f"{cells}/{name}.parquet": {"cache": False}}],
        }
    (run / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    for name in ("tem", "coin"):
        (run / f"{name}.py").write_text(name)
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    repro(warm, run, "tem")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "tem has run"], check=True)
    subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)
    there = clone / "runs/leaderboard"
    assert (there / cells / "tem.parquet").is_file()
    assert [file.name for file in (there / parts).iterdir()] == ["plain.parquet"]
    for name in ("dvc.yaml", "tem.py", "coin.py"):  # the profile and the clone's code provide these files
        shutil.copy(run / name, there)
    keep_private(clone)
    ran.unlink()
    repro(warm, there)
    assert ran.read_text().split() == ["parts", "coin"]
    ran.unlink()
    (there / "tem.py").write_text("edited")
    repro(warm, there)
    assert ran.read_text().split() == ["tem"]


def test_outs_for_git_hold_no_texts_and_are_not_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy(ROOT / "profiles/leaderboard.yaml", Path("runs/leaderboard/params.yaml"))
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    monkeypatch.chdir("runs/leaderboard")
    cell, parts, vectors = (
        outs_for_git(stage, settings())
        for stage in ("leaderboard_cells@snips-tem-1", "leaderboard_parts@snips", "vectors@minilm")
    )
    assert cell == [f"data/leaderboard/snips-tem-1{end}.parquet" for end in ("", ".figures")]
    assert parts == [f"data/leaderboard_parts/snips/{name}.parquet" for name in ("frontiers", "plain")]
    assert vectors == []
    texts = "data/leaderboard_parts/snips/texts.parquet"
    ignored = subprocess.run(["git", "check-ignore", texts, *cell, *parts], capture_output=True, text=True)
    assert ignored.stdout.split() == [texts]


def test_what_is_there_already_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = Path("runs/mine/params.yaml")
    copy(PROFILES[0], out)
    before = out.stat().st_mtime_ns, out.stat().st_ino
    copy(PROFILES[0], out)
    assert (out.stat().st_mtime_ns, out.stat().st_ino) == before


def test_an_unknown_profile_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with refused("EPS-C022", "atsi", "atis"):
        copy(ROOT / "profiles/atsi.yaml", tmp_path / "params.yaml")
