"""A command whose output others cannot add to, and that refuses paths it cannot read and files it would overwrite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from epsilometer.cli.translated import is_empty, translated
from epsilometer.core.errors import UserError
from epsilometer.core.readable import check_name, check_readable
from epsilometer.runtime.withholding import report, withhold

_WRITTEN = ("out", "json_file", "markdown", "junit", "sarif", "html")  # parameters whose files are written


class Group(TyperGroup):
    """The commands, which are found by the names of earlier versions, too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As `TyperGroup`, with old commands and options translated."""
        return super().resolve_command(ctx, translated(args))


class Command(TyperCommand):
    """Withholds what mechanisms and libraries print from its start until the process ends."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As `TyperCommand`. Raises UserError for an empty word, which as a path would mean the current folder."""
        for number, word in enumerate(args, start=1):
            if is_empty(word):
                raise UserError(
                    f"argument {number} of {ctx.info_name} is empty ({word!r}); give a value (an unset variable of the "
                    "shell is an empty word)",
                    "EPS-U034",
                )
        return list(super().parse_args(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """As `TyperCommand`. Raises UserError, before any work, for a path that is refused."""
        for name, value in ctx.params.items():
            for path in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(path, Path):
                    (check_name if name in _WRITTEN else check_readable)(path)
        read = {path for name, value in ctx.params.items() if name not in _WRITTEN for path in _files(value)}
        for option, path in _written(ctx.params):
            if path in read:
                raise UserError(
                    f"{option} must be another file than those that are read, got {path.name!r}, which would be lost",
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
            yield "--" + name.removesuffix("_file"), path


def _files(value: Any) -> Iterator[Path]:
    """The existing files that an argument's value, or a list of them, names."""
    for each in value if isinstance(value, (list, tuple)) else [value]:
        try:
            if isinstance(each, (str, Path)) and Path(each).is_file():
                yield Path(each).resolve()
        except (OSError, ValueError):  # a name that is too long, or no name at all
            continue
