"""The files that a Python file imports, directly or indirectly. Files are parsed, and nothing is executed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from epsilometer.core.errors import UserError
from epsilometer.core.syntax import Syntax, parsed

_PACKAGE = Path(__file__).parents[1]
TOP = _PACKAGE / "__init__.py"

read: dict[str, Syntax] = {}
"""The syntax of files that this process parsed or looked up, by the hash of a file's bytes. Parsing takes most of the
time, so equal bytes are parsed once."""
earlier: dict[str, Syntax] = {}
"""The syntax of files that earlier processes parsed, by the same hash (`project.remembered`)."""


class Use(NamedTuple):
    """A resolved import."""

    bound: str
    """The name that the import binds (`core.syntax.Import`); empty if the import only runs a package's `__init__`."""
    name: str
    """The imported name within the module; empty for the whole module."""
    file: Path | None
    """The module's file, if it is in one of the searched folders."""
    elsewhere: str
    """The module's name if `file` is None, else empty."""


def reached(
    file: Path, folders: Sequence[Path] = (), follow: Callable[[Path], bool] = lambda _: True
) -> tuple[list[Path], set[str]]:
    """Return a file and the files that it imports, and the top-level modules outside the searched folders.

    Imports inside functions count; imports for type checking alone do not. Modules are searched in the file's folder,
    then in `folders`, then in this package's folder, as in `component.module`. A module in none of these folders
    belongs to a library, and its imports are not followed. The imports of this package's `__init__` are not followed
    either, since it imports lazily. follow: a function that returns False for imported files to leave out. Raises
    UserError if a file is missing or is not Python.
    """
    places = searched(file, folders)
    files: dict[Path, None] = {}
    elsewhere: set[str] = set()
    todo = [file.resolve()]
    while todo:
        path = todo.pop()
        if path in files:
            continue
        files[path] = None
        own, others = direct(path, places)
        todo += [path for path in own if path not in files and follow(path)]
        elsewhere |= others
    return list(files), elsewhere


def searched(file: Path, folders: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the folders searched for the imports of a file, direct and indirect."""
    return tuple(dict.fromkeys(place.resolve() for place in (file.parent, *folders, _PACKAGE.parent)))


def direct(file: Path, places: tuple[Path, ...]) -> tuple[list[Path], set[str]]:
    """Return the files in these folders that a file imports directly, and the top-level modules from elsewhere.

    This package's `__init__` is excluded, since it imports lazily.
    """
    every = uses(file, places)
    files = dict.fromkeys(use.file for use in every if use.file is not None and use.file != TOP)
    return list(files), {use.elsewhere.partition(".")[0] for use in every} - {""}


def uses(file: Path, places: tuple[Path, ...]) -> list[Use]:
    """Return the imports of a file, searched in these folders."""
    return _uses(file, _changed(file), places)


def syntax(file: Path) -> Syntax:
    """Return the syntax of a file. Raises UserError if it is missing or is not Python."""
    return _syntax(file, _changed(file))


def beside(file: Path) -> dict[str, Path]:
    """Return the files that a file imports from its own folder, directly or indirectly, by top-level module."""
    folder, todo = file.resolve().parent, [file.resolve()]
    reached: list[Path] = []
    while todo:
        path = todo.pop()
        if path in reached:
            continue
        reached.append(path)
        for each in syntax(path).imports:
            start = path.parents[each.level - 1] if each.level else folder
            todo += [path for name in each.modules for path in _resolved(name, [start])]
        todo = [path for path in todo if path.is_relative_to(folder) and not path.is_relative_to(_PACKAGE)]
    return {path.relative_to(folder).parts[0].removesuffix(".py"): path for path in reached[1:]}


@cache
def _uses(file: Path, changed: int, places: tuple[Path, ...]) -> list[Use]:
    return list(_resolving(file, places))


def _resolving(file: Path, places: tuple[Path, ...]) -> Iterator[Use]:
    for modules, level, name, bound in syntax(file).imports:
        here = (file.parents[level - 1],) if level else places
        located = [_located(module, here) for module in modules]
        if not any(located):
            yield Use(bound, name, None, "." * level + modules[0])
            continue
        run = dict.fromkeys(path for paths in located for path in paths)
        used = next(paths[-1] for paths in reversed(located) if paths)
        yield from (Use("", "", path, "") for path in run if path != used)
        yield Use(bound, "" if located[-1] else name, used, "")


@cache
def _located(name: str, places: tuple[Path, ...]) -> list[Path]:
    """Return the result of `_resolved`, cached for the process, since most files import the same few modules."""
    return _resolved(name, places)


def _resolved(name: str, places: Iterable[Path]) -> list[Path]:
    """Return the `__init__.py` files of a module's packages, then its own file. Earlier `places` take precedence."""
    parts = [part for part in name.split(".") if part]
    for place in places:
        path = os.path.join(place, *parts)
        file = os.path.join(path, "__init__.py") if os.path.isdir(path) else f"{path}.py"
        if os.path.isfile(file):
            packages = [place.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts))]
            return [*filter(Path.is_file, packages), Path(file)]
    return []


def _changed(file: Path) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except FileNotFoundError:
        return 0


@cache
def _syntax(file: Path, changed: int) -> Syntax:
    try:
        written = file.read_bytes()
    except FileNotFoundError:
        raise UserError(f"file {file.name!r} not found; check its path in params.yaml", "EPS-C036") from None
    name = hashlib.blake2b(written, digest_size=16).hexdigest()
    if name not in read:
        try:
            read[name] = earlier[name] if name in earlier else parsed(written)
        except SyntaxError as error:
            place = f"{_shown(file)}, line {error.lineno}" if error.lineno else _shown(file)
            raise UserError(f"{place}: {error.msg}; correct the code", "EPS-C037") from error
        except ValueError as error:
            raise UserError(f"{_shown(file)} cannot be read as Python ({error}); correct it", "EPS-C038") from error
    return read[name]


def _shown(file: Path) -> str:
    """Return the path of a file, relative to the current folder if it lies inside."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
