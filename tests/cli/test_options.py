"""Options that belong together reach a command as one object, and the command line as options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer
from typer.testing import CliRunner

from epsilometer.cli.options import flat


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
