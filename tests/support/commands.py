"""The command line, in this process."""

from __future__ import annotations

import pytest

from epsilometer.cli import main


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run a command in this process: exit code, output, error output."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(exit.value.code or 0), out, err
