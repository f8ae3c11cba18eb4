"""Names and paths in params.yaml: names become files and stages, and relative paths stay within the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    from epsilometer.project.params import ProjectParams

NAME = re.compile(r"\w[\w.-]{0,99}")  # of files and of stages
_COMPONENTS = "attacks"  # whose keys are names or paths of components, and name no file


def check_names(params: ProjectParams) -> None:
    """Raises UserError for a name of an entry that no file can have."""
    sections = [(kind, entries) for kind, entries in params if isinstance(entries, Mapping) and kind != _COMPONENTS]
    for kind, names in [*sections, ("words.sources", params.words.sources)]:
        for name in names:
            if not NAME.fullmatch(name):
                raise UserError(
                    f"a name in {kind} must be letters, digits, '.', '_' and '-', at most 100, and start with a "
                    f"letter or digit, got {name!r}; files are named after it"
                )


def check_paths(params: ProjectParams) -> None:
    """Raises UserError for a relative path that leads out of the project and of the folders under `outside`."""
    for setting, path in params.data_paths():
        if _leaves(path) and not any(_below(path, folder) for folder in params.outside):
            raise UserError(
                f"{setting} must lie in the project or in a folder named under `outside`, got {path!r}; add "
                f"`outside: [{os.path.dirname(path)}]` to read from there, or give an absolute path"
            )
    up = PurePath(os.path.normpath(params.root)).parts.count("..")
    inside = [(setting, path, 0) for setting, path in params.code_paths()]
    inside += [(setting, path, up) for setting, path in params.read_paths()]
    for setting, path, depth in inside:
        if _leaves(path, depth):
            raise UserError(f"{setting} must lie in the project, got {path!r}; move it there, or give an absolute path")


def _leaves(path: str, up: int = 0) -> bool:
    """Whether a relative path leads out of the project from a folder that lies `up` folders deep in it."""
    return not os.path.isabs(path) and PurePath(os.path.normpath(path)).parts[: up + 1].count("..") > up


def _below(path: str, folder: str) -> bool:
    return PurePath(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string in settings, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from strings(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from strings(part, f"{place}[{i}]")
