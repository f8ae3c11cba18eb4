"""Checks of params.yaml: names must be valid for files and stages, and relative paths must stay in the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from epsilometer.core.errors import UserError

NAME = re.compile(r"\w[\w.-]{0,99}")  # valid names of files and stages
_COMPONENTS = "attacks"  # a section whose keys may be paths, because they are components


def check_names(sections: Iterable[tuple[str, Any]]) -> None:
    """Raise UserError for a name that does not match `NAME`, or has a dot, which DVC reads as a nested setting.

    sections: pairs of a section's name and its content. The names are the keys of each content that is a mapping.
    Section `attacks` is not checked, because its keys may be paths.
    """
    for kind, entries in sections:
        for name in entries if isinstance(entries, Mapping) and kind != _COMPONENTS else ():
            if not NAME.fullmatch(name) or "." in name:
                raise UserError(
                    f"a name in {kind} must be letters, digits, '_' and '-', at most 100, and start with a letter or "
                    f"digit, got {name!r}; files and settings of stages are named after it",
                    "EPS-P049",
                )


def check_data(paths: Iterable[tuple[str, str]], outside: Sequence[str]) -> None:
    """Raise UserError for a relative path that leads neither into the project nor into a folder of `outside`.

    paths: pairs of a setting and its path.
    """
    for setting, path in paths:
        if _leaves(path) and not any(
            PurePath(os.path.normpath(path)).is_relative_to(os.path.normpath(folder)) for folder in outside
        ):
            raise UserError(
                f"{setting} must lie in the project or in a folder named under `outside`, got {path!r}; add "
                f"`outside: [{os.path.dirname(path)}]` to read from there, or give an absolute path",
                "EPS-P050",
            )


def check_inside(paths: Iterable[tuple[str, str]], root: str = ".") -> None:
    """Raise UserError for a relative path that leads out of the project.

    root: the path of the project's folder, relative to the same folder as `paths`.
    """
    up = PurePath(os.path.normpath(root)).parts.count("..")
    for setting, path in paths:
        if _leaves(path, up):
            raise UserError(
                f"{setting} must lie in the project, got {path!r}; move it there, or give an absolute path", "EPS-P051"
            )


def _leaves(path: str, up: int = 0) -> bool:
    """Return True if a relative path, from a folder `up` levels deep in the project, leads out of the project."""
    return not os.path.isabs(path) and PurePath(os.path.normpath(path)).parts[: up + 1].count("..") > up


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in settings, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from strings(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from strings(part, f"{place}[{i}]")
