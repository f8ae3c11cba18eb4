"""Parts of a stage's work: finished parts are used only for the same inputs, and only whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from epsilometer.core.errors import UserError
from epsilometer.runtime.resuming import FOLDER, Parts, parts, running
from tests.support.refusals import refused


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stage(inputs: str = "same", check: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
    return running("training", "songs-0.5", lambda: inputs, check)


def kill(name: str = "0", text: str = "half") -> None:
    """A stage that finishes a part, begins another, and is killed."""
    with suppress(KeyboardInterrupt), parts() as begun:
        with begun.part(name) as folder:
            (folder / "a.txt").write_text(text)
        with begun.part("1") as folder:
            (folder / "a.txt").write_text("begun")
            raise KeyboardInterrupt


def test_what_a_killed_stage_finished_is_there_until_it_ends() -> None:
    with stage():
        kill()
        with parts() as begun:
            assert "0" in begun
            assert "1" not in begun
            assert (begun.folder / "1/a.txt").read_text() == "begun"  # for example, a checkpoint
            begun.copy("0", Path("data/out"))
    assert [path.name for path in Path("data/out").iterdir()] == ["a.txt"]
    assert Path("data/out/a.txt").read_text() == "half"
    assert not FOLDER.exists()


def test_other_inputs_find_nothing() -> None:
    with stage():
        kill()
    with stage("other"), suppress(KeyboardInterrupt), parts() as begun:
        assert "0" not in begun
        raise KeyboardInterrupt
    with stage(), parts() as begun:
        assert "0" in begun


def test_another_entry_finds_nothing_and_stays() -> None:
    with stage():
        kill()
    with running("training", "songs-2", lambda: "same"), parts() as begun:
        assert "0" not in begun
    with stage(), parts() as begun:
        assert "0" in begun


@pytest.mark.parametrize("damage", [lambda path: path.write_text("hale"), lambda path: path.unlink()])
def test_a_damaged_part_is_said_and_made_anew(
    damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with stage():
        kill()
        damage(FOLDER / "training/songs-0.5/same/0/a.txt")
        with parts() as begun:
            assert "0" not in begun
            assert not (begun.folder / "0").exists()
    assert "same/0, finished before the stage was stopped, is damaged and is made again" in capsys.readouterr().err


def test_a_part_made_while_an_input_was_edited_is_not_finished() -> None:
    def edited() -> None:
        raise UserError("edited while this stage was running", "OWN-1")

    with stage(check=edited), refused("OWN-1"), parts() as begun, begun.part("0"):
        pass
    with stage(), parts() as begun:
        assert "0" not in begun


def test_without_a_runner_nothing_is_kept() -> None:
    kill()
    with parts() as begun:
        assert isinstance(begun, Parts)
        assert "0" not in begun
    assert not [*FOLDER.iterdir()]
