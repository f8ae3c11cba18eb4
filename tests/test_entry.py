from __future__ import annotations

import pytest

from epsilometer.errors import UserError
from tasks.entry import run


def test_a_users_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise UserError("k must be >= 2, got 1")

    monkeypatch.setattr("sys.argv", ["stage"])
    with pytest.raises(SystemExit) as end:
        run(main)
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: k must be >= 2, got 1\n"


def test_other_errors_keep_private_text_to_themselves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(name: str) -> None:
        raise ValueError(f"cannot parse {name}")

    monkeypatch.setattr("sys.argv", ["stage", "a secret"])
    monkeypatch.delenv("EPSILOMETER_SHOW_ERRORS", raising=False)
    with pytest.raises(SystemExit) as end:
        run(main)
    said = capsys.readouterr().err
    assert end.value.code == 1
    assert "secret" not in said
    assert "ValueError" in said
    assert "test_entry.py" in said
    monkeypatch.setenv("EPSILOMETER_SHOW_ERRORS", "1")
    with pytest.raises(ValueError, match="secret"):
        run(main)
