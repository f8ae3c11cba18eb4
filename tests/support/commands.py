"""Calls of the command line in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import typer

from epsilometer.cli import app as commands
from epsilometer.cli import main
from epsilometer.runtime.withholding import restore


def run(*words: str) -> int:
    """Run a command in this process, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run a command in this process, and return exit code, standard output and standard error."""
    code = run(*map(str, arguments))
    return code, *capsys.readouterr()


def app(arguments: Sequence[str]) -> int:
    """Run a command in this process, and return its exit code. Its errors are raised."""
    try:
        return commands.app(list(arguments), standalone_mode=False) or 0
    finally:
        restore()


def leaves() -> dict[str, Any]:
    """Return every command by its words, including commands of groups: `audit`, `check params`."""
    top: Any = typer.main.get_command(commands.app)
    every: dict[str, Any] = {}
    for name, command in top.commands.items():
        inner = getattr(command, "commands", None)
        every |= {name: command} if inner is None else {f"{name} {word}": each for word, each in inner.items()}
    return every
