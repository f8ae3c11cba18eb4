"""Commands: epsilometer's in this process, and git's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from epsilometer.cli import main


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run a command in this process: exit code, output, error output."""
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(exit.value.code or 0), out, err


def git(folder: Path, *arguments: str) -> str:
    """What git prints, run in a folder by an identity of its own."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
