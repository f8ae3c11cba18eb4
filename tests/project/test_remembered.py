"""The cache of parsed files, by their bytes: equal to a fresh parse, and damaged entries are ignored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from epsilometer.core import imports
from epsilometer.core.imports import reached
from epsilometer.pipeline import bodies
from epsilometer.project import code
from epsilometer.project.remembered import remembered
from tests.support.places import ROOT


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a new project, for processes that have read nothing yet."""
    (tmp_path / ".dvc" / "tmp").mkdir(parents=True)
    forget(monkeypatch)
    return tmp_path / ".dvc" / "tmp" / "epsilometer.imports"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "read", {})
    monkeypatch.setattr(imports, "earlier", {})
    monkeypatch.setattr(code, "packages", {})
    code._distributions.cache_clear()
    imports._uses.cache_clear()
    imports._syntax.cache_clear()


def unread(written: bytes) -> None:
    raise AssertionError(f"read although it is known: {written[:50]!r}")


def test_a_record_is_that_of_reading_anew(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anew = code.record([bodies()["trials"]], ROOT)
    forget(monkeypatch)
    with remembered(tmp_path):
        assert code.record([bodies()["trials"]], ROOT) == anew
    before = file.read_bytes()
    forget(monkeypatch)
    monkeypatch.setattr(imports, "parsed", unread)
    monkeypatch.setattr(code.metadata, "packages_distributions", unread)
    with remembered(tmp_path):
        assert code.record([bodies()["trials"]], ROOT) == anew
    assert file.read_bytes() == before


def test_an_edit_of_equal_size_and_time_is_seen(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.py"
    for text, modules in (("import one", {"one"}), ("import two", {"two"}), ("import one", {"one"})):
        mine.write_text(text)
        os.utime(mine, (1, 1))
        forget(monkeypatch)
        with remembered(tmp_path):
            assert reached(mine)[1] == modules


@pytest.mark.parametrize("damage", ["", "cut", "edited", "garbage"])
def test_a_damaged_file_is_named_and_written_anew(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import one")
    with remembered(tmp_path):
        reached(mine)
    whole = file.read_text()
    damaged = {
        "": b"",
        "cut": whole[:-3].encode(),
        "edited": whole.replace("one", "two").encode(),
        "garbage": b"\xff" * 9,
    }
    file.write_bytes(damaged[damage])
    forget(monkeypatch)
    capsys.readouterr()
    with remembered(tmp_path):
        assert reached(mine)[1] == {"one"}
    assert file.read_text() == whole
    assert f"{file}, the cache of parsed code, is damaged" in capsys.readouterr().err


def test_another_version_of_the_reader_reads_anew_and_says_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import one")
    with remembered(tmp_path):
        reached(mine)
    forget(monkeypatch)
    monkeypatch.setattr("epsilometer.project.remembered._reader", lambda: "of another version")
    capsys.readouterr()
    with remembered(tmp_path):
        assert imports.earlier == {}
    assert capsys.readouterr().err == ""


def test_another_state_of_the_packages_is_read(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with remembered(tmp_path):
        assert code.versions({"pretended"}) == {"pretended": "absent"}
    info = tmp_path / "pretended-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pretended\nVersion: 1\n")
    (info / "top_level.txt").write_text("pretended\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget(monkeypatch)
    with remembered(tmp_path):
        assert code.versions({"pretended"}) == {"pretended": "1"}
