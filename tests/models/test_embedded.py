"""What the mechanisms read when nothing else is given: made once, and said."""

from __future__ import annotations

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
    assert capsys.readouterr().err == f"note: made once, and kept in {path}: the word vectors of a test\n"
    assert cached("vectors.npz", "the word vectors of a test", make) == path
    assert capsys.readouterr().err == ""
