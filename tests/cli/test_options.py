"""Options that belong together reach a command as one object, and the command line as separate options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from epsilometer.cli import app as commands
from epsilometer.cli.options import flat
from tests.support.commands import call, leaves


@dataclass(frozen=True)
class Inner:
    depth: Annotated[int, typer.Option(help="How deep.")] = 3


@dataclass(frozen=True)
class Outer:
    name: Annotated[str, typer.Argument()]
    words: Annotated[list[str], typer.Option(help="Some.")] = field(default_factory=lambda: ["text"])
    inner: Inner = field(default_factory=Inner)


def command(outer: Outer, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    print(outer, loud)


def test_a_dataclass_is_filled_from_options_its_own_dataclasses_too() -> None:
    app = typer.Typer()
    app.command()(flat(command))
    every = ["a", "--depth", "5", "--words", "x", "--words", "y", "--loud"]
    assert CliRunner().invoke(app, every).stdout == f"{Outer('a', ['x', 'y'], Inner(5))} True\n"
    assert CliRunner().invoke(app, ["a"]).stdout == f"{Outer('a')} False\n", "defaults are as they were"


def test_there_are_few_commands_and_options() -> None:
    """An option that several commands have counts once. docs/design.md says why each command is there."""
    top: Any = typer.main.get_command(commands.app)
    options = {o.opts[0] for each in leaves().values() for o in each.params if o.param_type_name == "option"}
    assert len(top.commands) <= 22
    assert len(options) <= 120


@pytest.mark.parametrize("words", [(), ("check",), ("results",), ("pipeline",), ("training",)])
def test_a_help_line_is_a_whole_sentence(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, *words, "--help")
    lines = out.partition("Commands:\n")[2].splitlines()
    assert code == 0
    assert len(lines) >= 3
    assert all(re.fullmatch(r"  [a-z-]+ +[A-Z].+\w\.", line) for line in lines)
