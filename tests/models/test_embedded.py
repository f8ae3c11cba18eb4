"""The default resources of mechanisms are built once, and the build is reported."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from epsilometer.models.embedded import cached


def test_what_is_made_is_said_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(out: Path) -> None:
        out.write_bytes(b"x")

    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    path = cached("vectors.npz", "the word vectors of a test", make)
    assert path.read_bytes() == b"x"
    assert capsys.readouterr().err == f"note: computing once, to be cached in {path}: the word vectors of a test\n"
    assert cached("vectors.npz", "the word vectors of a test", make) == path
    assert capsys.readouterr().err == ""


def test_what_a_killed_process_left_is_deleted_at_the_next_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a file; not what a running process writes, nor one on another machine that shares the home."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path)
    (tmp_path / "vectors.npz").write_bytes(b"x")
    here = f"partial-{platform.node()}"
    left = [tmp_path / f"{here}-{ended.pid}-autoencoder", tmp_path / f"{here}-{ended.pid}-lists.npz"]
    left[0].mkdir()
    (left[0] / "model.safetensors").write_bytes(b"x")
    left[1].write_bytes(b"x")
    going_on = [tmp_path / f"{here}-{os.getpid()}-triples", tmp_path / f"partial-other-machine-{ended.pid}-triples"]
    for folder in going_on:
        folder.mkdir()
    assert cached("vectors.npz", "there", lambda out: None) == tmp_path / "vectors.npz"
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in going_on)
