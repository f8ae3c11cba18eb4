"""DVC deletes and unpickles files in its site cache, so nobody else may write there: not in a clone, not by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from epsilometer.pipeline.starting import start
from epsilometer.project.site_cache import NAME, VARIABLE, keep_private
from tests.support.dvc_project import make_project
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.sparing import first
from tests.support.warm import Warm

NOBODY = 65534
STAGE = "stages:\n  one:\n    cmd: echo 1 > one.txt\n    outs: [one.txt]\n"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != VARIABLE},
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
    "DVC_NO_ANALYTICS": "1",
}


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that every user may look into, as a home often is; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def kept_by(project: Path, warm: Warm) -> Path:
    """The site cache that `dvc` itself names in this folder."""
    code, said = warm.run(("dvc", "doctor"), project, ENVIRONMENT)
    assert code == 0, said
    (line,) = (line for line in said.splitlines() if line.startswith("Repo.site_cache_dir: "))
    return Path(project, line.removeprefix("Repo.site_cache_dir: "))


def open_to_others(token: Path) -> list[str]:
    """What of a site cache somebody else may write, up to the folder that holds it."""
    places = [token.parent.parent, token.parent, *token.parent.rglob("*")]
    return [str(place) for place in places if place.stat().st_mode & 0o022]


@pytest.mark.slow
def test_a_clone_in_which_dvc_is_called_by_hand(readable: Path, warm: Warm) -> None:
    start(readable / "mine", None, "text", "identity")
    (readable / "mine/dvc.yaml").write_text(STAGE)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    run(readable / "mine", "git", *identity, "commit", "-q", "-a", "-m", "one")
    run(readable, "git", "clone", "-q", "mine", "clone")
    clone = readable / "clone"
    assert not (clone / ".dvc/config.local").exists()
    run(clone, "dvc", "repro")
    token = kept_by(clone, warm)
    assert token.is_relative_to(clone / NAME)
    assert (token / "links/cache.db").is_file()
    assert open_to_others(token) == []
    if os.geteuid() == 0:
        script = f"touch {token}/links/x; mv {token} {token}.old; mkdir {token.parent}/x; touch {clone}/{NAME}/x"
        subprocess.run(["sh", "-c", script], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True)
        assert (token / "links/cache.db").is_file()
        assert not [*clone.glob(f"{NAME}/**/x")]


@pytest.mark.slow
@pytest.mark.parametrize("how", [["python", "-m", "epsilometer.pipeline.repro", "dvc.yaml"], ["dvc", "repro"]])
def test_after_a_run_it_is_closed_and_named_for_every_folder(readable: Path, how: list[str], warm: Warm) -> None:
    """By a stage too, where nobody goes through `epsilometer.pipeline.repro`."""
    project = readable / "mine"
    project.mkdir()
    make_project(project)
    (project / ".dvc/config.local").unlink()
    (project / NAME).chmod(0o755)
    stage = "from epsilometer.pipeline.guard.entry import run\nrun(lambda: open('one.txt', 'w').write('1'), 'one')\n"
    (project / "stage.py").write_text(stage)
    (project / "params.yaml").write_text("")
    (project / "dvc.yaml").write_text(STAGE.replace("echo 1 > one.txt", "python stage.py"))
    run(project, *how)
    assert (project / NAME).stat().st_mode & 0o777 == 0o700
    (project / "below").mkdir()
    assert kept_by(project / "below", warm).is_relative_to(project / NAME)
    assert not (project / "below" / NAME).exists()


def test_set_up_names_it_for_every_folder(readable: Path, warm: Warm) -> None:
    """Before anything has run: DVC would otherwise make one that everybody may write in the folder it is called in."""
    project = readable / "mine"
    (project / "below").mkdir(parents=True)
    make_project(project)
    (project / ".dvc/config.local").unlink()
    (line,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if "site_cache" in line)
    run(project, *line.strip().removeprefix("@").split())
    assert kept_by(project / "below", warm).is_relative_to(project / NAME)
    assert not (project / "below" / NAME).exists()


@pytest.mark.parametrize("place", first(1, [NAME, f"{NAME}/repo", f"{NAME}/repo/token"]))
@pytest.mark.parametrize("how", ["mode", "owner"])
def test_a_folder_that_somebody_else_can_write_is_refused(tmp_path: Path, place: str, how: str, warm: Warm) -> None:
    make_project(tmp_path)
    (tmp_path / NAME / "repo/token").mkdir()
    folder = tmp_path / place
    if how == "mode":
        folder.chmod(0o777)
        refusal = ("EPS-P069", "0777")
    elif os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        refusal = ("EPS-P068", str(NOBODY))
    else:
        pytest.skip("only root can give a folder away")
    with refused(*refusal, f"{folder} in "):
        keep_private(tmp_path)
    if place != NAME:
        return  # a run checks all of them in the same way
    (tmp_path / "dvc.yaml").write_text(STAGE)
    code, said = warm.run(("python", "-m", "epsilometer.pipeline.repro"), tmp_path, ENVIRONMENT)
    assert code != 0
    assert "Traceback" not in said
    assert f"error: {folder} in DVC's site cache" in said
    assert not (tmp_path / "one.txt").exists()


def test_a_project_whose_group_shares_it_shares_this_too(tmp_path: Path) -> None:
    """As after a clone under umask 002."""
    make_project(tmp_path)
    (tmp_path / NAME).chmod(0o775)
    tmp_path.chmod(0o775)
    keep_private(tmp_path)
    (tmp_path / NAME).chmod(0o775)
    tmp_path.chmod(0o755)
    with refused("EPS-P069"):
        keep_private(tmp_path)


def test_a_folder_that_the_user_names_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    make_project(tmp_path / "project")
    named = tmp_path / "named"
    monkeypatch.setenv(VARIABLE, str(named))
    keep_private(tmp_path / "project")
    named.chmod(0o777)
    with refused("EPS-P069", str(named)):
        keep_private(tmp_path / "project")


def test_a_project_that_moves_takes_it_along(tmp_path: Path, warm: Warm) -> None:
    (tmp_path / "old").mkdir()
    make_project(tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")
    keep_private(tmp_path / "new")
    assert kept_by(tmp_path / "new", warm).is_relative_to(tmp_path / "new" / NAME)
    local = tmp_path / "new/.dvc/config.local"
    local.write_text(f"[core]\n    site_cache_dir = {tmp_path}/chosen\n")
    keep_private(tmp_path / "new")
    assert kept_by(tmp_path / "new", warm).is_relative_to(tmp_path / "chosen"), "the user's choice stays"
