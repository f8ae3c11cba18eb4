"""DVC's list of busy files: written while a stage's command runs, for other processes to see, and not otherwise."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from dvc import rwlock
from dvc.cli import main as dvc
from dvc.fs import LocalFileSystem
from dvc.lock import Lock, LockError

from epsilometer.pipeline.busy import deferred
from tests.support.dvc_project import make_project

STAGES = """stages:
  first:
    cmd: cp .dvc/tmp/rwlock first.json
    deps: [given.txt]
    outs: [first.json]
  second:
    cmd: cp .dvc/tmp/rwlock second.json
    deps: [first.json]
    outs: [second.json]
"""


def test_a_command_finds_what_dvc_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same list as without `deferred`, and nothing is written where no stage runs.

    Through DVC itself: this fails if an update of DVC notes or unlocks by other names.
    """
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    seen = []
    for name, mode in (("own", nullcontext()), ("deferred", deferred())):
        project = tmp_path / name
        project.mkdir()
        monkeypatch.chdir(project)
        make_project(project)
        Path("dvc.yaml").write_text(STAGES)
        Path("given.txt").write_text("1")
        with mode:
            assert dvc(["repro"]) == 0
            lists = [Path(file).read_text().replace(str(project), "") for file in ("first.json", "second.json")]
            seen.append([json.loads(text) for text in lists])
            assert json.loads(Path(".dvc/tmp/rwlock").read_text()) == {}
            Path(".dvc/tmp/rwlock").unlink()
            assert dvc(["repro"]) == 0
            assert Path(".dvc/tmp/rwlock").exists() == (name == "own")
    assert seen[0] == seen[1]
    assert [sorted(one["write"]) for one in seen[1]] == [["/first.json"], ["/second.json"]]


def test_other_commands_are_kept_off_as_ever(tmp_path: Path) -> None:
    """What another holds blocks at once; what this one holds blocks another as soon as the project is unlocked."""
    place, files, project = str(tmp_path), LocalFileSystem(), Lock(str(tmp_path / "lock"))
    note = rwlock.rwlock
    with deferred():
        held = note(place, files, "another", [], ["/out"], False)
        mine = rwlock.rwlock(place, files, "this", ["/out"], [], False)
        with held, pytest.raises(LockError, match="busy"), mine:
            pass
        project.lock()
        with rwlock.rwlock(place, files, "this", ["/in"], ["/out"], False):
            project.unlock()
            with pytest.raises(LockError, match="busy"), note(place, files, "another", ["/out"], [], False):
                pass
            project.lock()
        with note(place, files, "another", ["/out"], [], False):
            pass
        project.unlock()
    assert rwlock.rwlock is note
    assert not any(json.loads((tmp_path / "rwlock").read_text()).values())
