"""A command that does not write over what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from epsilometer.core.errors import UserError

_WRITTEN = ("out", "json_file", "markdown", "junit", "sarif", "html")  # parameters whose files are written


class Command(TyperCommand):
    """Refuses, before any work, to write to a file that another of its arguments names."""

    def invoke(self, ctx: Any) -> Any:
        """As `TyperCommand`. Raises UserError."""
        read = {path for name, value in ctx.params.items() if name not in _WRITTEN for path in _files(value)}
        for option, path in _written(ctx.params):
            if path in read:
                raise UserError(
                    f"{option} must be another file than those that are read, got {path.name!r}, which would be lost"
                )
        return super().invoke(ctx)


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
