"""Files are written whole, and never through a link or file that somebody else put in their place."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.core import tables
from epsilometer.core.atomic import whole, write_text
from epsilometer.corpora import files
from epsilometer.runtime import checksums
from epsilometer.text.vectors import write_arrays
from tests.support.places import ROOT
from tests.support.refusals import refused


def writes_table(path: Path) -> None:
    tables.write(pl.DataFrame({"a": [1]}), path, {"a": pl.Int64})


def writes_rows(path: Path) -> None:
    with tables.ArrayWriter(path, 1) as writer:
        writer.write(np.array([0]), np.ones((1, 2), np.float32))


def writes_rewrites(path: Path) -> None:
    files.write(pl.DataFrame({"a": [1]}), path, ".csv")


WRITERS = {
    "rewrites": writes_rewrites,
    "text": lambda path: write_text("new", path),
    "json": lambda path: tables.write_json([1], path),
    "a table": writes_table,
    "an array": lambda path: tables.write_array(np.ones(3), path),
    "an array by rows": writes_rows,
    "arrays": lambda path: write_arrays(path, a=np.ones(3)),
    "checksums": lambda path: checksums.write(path.parent),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_planted_link_overwrites_nothing(tmp_path: Path, write) -> None:
    """In a shared folder another user can tell the number of a process, and its file's name."""
    path = tmp_path / (checksums.NAME if write is WRITERS["checksums"] else "out")
    victim = tmp_path.parent / f"{tmp_path.name}.victim"
    victim.write_text("precious")
    for planted in (f".{path.name}.{os.getpid()}.partial", path.name):
        (tmp_path / planted).symlink_to(victim)
    write(path)
    assert victim.read_text() == "precious"
    assert path.is_file()
    assert not path.is_symlink()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_nothing_is_written_through_a_link_that_is_swapped_in(tmp_path: Path, write, monkeypatch) -> None:
    """By another user, as soon as the file is begun: in a folder without a sticky bit he may delete what is there."""
    folder = tmp_path / "shared"
    folder.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    swapped = []

    def swap(path, *how, **options) -> int:
        descriptor = real(path, *how, **options)
        if str(path).endswith(".partial") and not swapped:
            swapped.append(Path(path))
            Path(path).unlink()
            Path(path).symlink_to(victim)
        return descriptor

    real = os.open
    monkeypatch.setattr(os, "open", swap)
    with refused("EPS-C003"):
        write(folder / "out")
    assert swapped
    assert victim.read_text() == "precious"
    assert not list(folder.iterdir())


def test_a_link_that_takes_the_name_at_the_last_moment_is_no_result(tmp_path: Path, monkeypatch) -> None:
    """Between the look at the name and the renaming."""
    victim = tmp_path / "victim"
    victim.write_text("precious")

    def swap(partial: Path, path: Path) -> None:
        partial.unlink()
        partial.symlink_to(victim)
        real(partial, path)

    real = os.replace
    monkeypatch.setattr(os, "replace", swap)
    with refused("EPS-C003"):
        write_text("new", tmp_path / "out")
    assert victim.read_text() == "precious"


def test_what_is_begun_has_a_name_of_its_own_and_that_of_its_process(tmp_path: Path) -> None:
    """By which the next run recognises what a killed process left."""
    with whole(tmp_path / "out"), whole(tmp_path / "out"):
        begun = list(tmp_path.iterdir())
        assert len(begun) == 2
        for partial in begun:
            assert re.fullmatch(rf"\.out\.[0-9a-f]{{16}}\.{os.getpid()}\.partial", partial.name)
            assert int(partial.suffixes[-2][1:]) == os.getpid()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), whole(tmp_path / "out"):
        (tmp_path / "absent").read_text()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("before", "private", "after"), [
    (None, False, 0o644), (None, True, 0o600), (0o600, False, 0o600), (0o640, False, 0o640), (0o666, False, 0o644),
    (0o644, True, 0o600), (0o444, False, 0o644),
])  # fmt: skip
def test_a_file_is_never_more_open_than_the_one_it_replaces(tmp_path: Path, before, private, after) -> None:
    path = tmp_path / "out"
    if before is not None:
        path.touch()
        path.chmod(before)
    umask = os.umask(0o022)
    try:
        write_text("new", path, private=private)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == after


def test_an_earlier_table_survives_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: half a file never stands under its name."""
    path = tmp_path / "out.csv"
    path.write_text("earlier")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        writes_rewrites(path)
    assert path.read_text() == "earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "out"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_text("new", path)
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
def test_a_pipe_of_another_user_is_replaced(tmp_path: Path) -> None:
    """Its maker would read what is written."""
    path = tmp_path / "out"
    os.mkfifo(path)
    os.chown(path, 65534, 65534)
    write_text("new", path)
    assert path.is_file()


# Files that grow, in folders that nobody else can enter, and the module that writes atomically.
IN_PLACE = {"core/atomic.py", "auditing/calibration/journal.py", "mechanisms/selection/shared/near_duplicates.py",
            "pipeline/flows/ui.py", "runtime/batches.py", "runtime/hub.py"}  # fmt: skip


def test_nothing_else_is_written_in_place() -> None:
    in_place = {}
    for file in sorted((ROOT / "epsilometer").rglob("*.py")):
        name = str(file.relative_to(ROOT / "epsilometer"))
        calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
        if name not in IN_PLACE and (lines := [call.lineno for call in calls if writes_in_place(call)]):
            in_place[name] = lines
    assert not in_place


def writes_in_place(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_bytes", "to_csv", "sink_csv") or (name == "write_text" and isinstance(call.func, ast.Attribute)):
        return ast.unparse(call.func).split(".")[0] not in ("tables", "atomic")
    modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return name == "open" and any(mode in ("w", "wb", "a", "ab", "wt", "at") for mode in modes)


def test_the_search_sees_what_is_written_in_place() -> None:
    for code in ("path.write_text(x)", "path.write_bytes(x)", "open(path, 'w')", "path.open('ab')"):
        call = ast.parse(code, mode="eval").body
        assert isinstance(call, ast.Call)
        assert writes_in_place(call)
