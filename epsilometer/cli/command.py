"""A command that withholds libraries' output, and refuses unreadable paths and outputs that overwrite its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from epsilometer.cli.translated import translated
from epsilometer.core.errors import UserError
from epsilometer.core.readable import check_name, check_readable
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import report, withhold

_FIRST = (
    *("audit", "ask", "gate", "decide", "rewrite", "release", "anonymize"),
    *("init", "check", "list", "results", "pipeline"),
)
_EMPTY = re.compile(r"(--[\w-]+=)?")
_WRITTEN = ("out", "report")  # parameters whose files are written


class Group(TyperGroup):
    """A group of commands, which can also be called by the names of earlier versions."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Translate old commands and options, then resolve the command as `TyperGroup` does.

        Raises UserError for an empty word, which as a path would mean the current folder.
        """
        command, *words = args
        for number, word in enumerate(words, start=1):
            if _EMPTY.fullmatch(word):
                raise UserError(
                    f"argument {number} of {command} is empty ({word!r}); give a value (an unset variable of the shell "
                    "is an empty word)",
                    "EPS-U034",
                )
        call = translated(args)
        if notice := call.notice():
            note(notice)
        return super().resolve_command(ctx, call.words)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands' names, in the order in which a new user needs them."""
        return sorted(super().list_commands(ctx), key=lambda name: (*_FIRST, name).index(name))


class Command(TyperCommand):
    """A command that withholds the output of mechanisms and libraries until the process ends."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises UserError, before any work, for an unreadable path or an overwritten input."""
        for name, value in ctx.params.items():
            for path in _each(value):
                if isinstance(path, Path):
                    (check_name if name in _WRITTEN else check_readable)(path)
        read = {path for name, value in ctx.params.items() if name not in _WRITTEN for path in _files(value)}
        for option, path in _written(ctx.params):
            if path in read:
                raise UserError(
                    f"{option} would overwrite the input {path.name!r}; name another file",
                    "EPS-U035",
                )
        withhold()
        try:
            return super().invoke(ctx)
        finally:
            report()


def _written(values: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    for name in _WRITTEN:
        for path in _files(values.get(name)):
            yield f"--{name}", path


def _each(value: Any) -> Iterator[Any]:
    """Yield the parts of an option's value, which may be a list or a list of pairs."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _each(part)
    else:
        yield value


def _files(value: Any) -> Iterator[Path]:
    """Yield the existing files among an option's values, as absolute paths."""
    for each in _each(value):
        try:
            if isinstance(each, (str, Path)) and Path(each).is_file():
                yield Path(each).resolve()
        except (OSError, ValueError):  # a name that is too long or invalid
            continue
