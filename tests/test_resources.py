"""What the mechanisms read when nothing else is given: made once, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from epsilometer.models import embedded as resources


def test_what_is_made_is_said_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def vectors(out: Path) -> None:
        """The word vectors of a test."""
        out.write_bytes(b"x")

    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setitem(resources._MAKERS, "vectors.npz", vectors)
    path = resources.cached("vectors.npz")
    assert path.read_bytes() == b"x"
    assert capsys.readouterr().err == f"note: made once, and kept in {path}: the word vectors of a test\n"
    assert resources.cached("vectors.npz") == path
    assert capsys.readouterr().err == ""
