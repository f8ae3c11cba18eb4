"""Files are written whole, and never through what somebody else put in their place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.core import tables
from epsilometer.core.atomic import whole, write_text
from epsilometer.core.errors import UserError
from epsilometer.runtime import checksums
from epsilometer.text.vectors import write_arrays


def writes_table(path: Path) -> None:
    tables.write(pl.DataFrame({"a": [1]}), path, {"a": pl.Int64})


def writes_rows(path: Path) -> None:
    with tables.ArrayWriter(path, 1) as writer:
        writer.write(np.array([0]), np.ones((1, 2), np.float32))


WRITERS = {
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
    with pytest.raises(UserError, match="exchanged"):
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
    with pytest.raises(UserError, match="exchanged"):
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
