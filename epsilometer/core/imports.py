"""The files that a Python file uses: those that its imports reach, read off their syntax. Nothing is executed."""

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
earlier: dict[str, Syntax] = {}
"""The syntax by the hash of a file's bytes, as read by this process and by those before it (`project.remembered`).
Parsing is most of the work, and equal bytes have the same syntax."""


class Use(NamedTuple):
    """An import as it resolves."""

    bound: str
    """The name in the file, as in `core.syntax.Import`; empty for a package that Python runs before the module."""
    name: str
    """The name within the module; empty for the module as a whole, whatever it is called."""
    file: Path | None
    """The module's file, where it is in one of the folders that were searched."""
    elsewhere: str
    """The module's name where it is not."""


def reached(
    file: Path, folders: Sequence[Path] = (), follow: Callable[[Path], bool] = lambda _: True
) -> tuple[list[Path], set[str]]:
    """The files that a file's imports reach, itself first, and the names of the top-level modules that lie elsewhere.

    Imports inside functions count, those for type checking alone do not. Modules are looked for beside the file (as
    `component.module` has Python do), then in `folders`, then where this package lies; a module that is in none of
    them is a library's, and is not followed. Nor is this package's `__init__`, which imports only what is asked of it.
    follow: which files count. Raises UserError where a file is missing or is not Python.
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
    """Returns the folders that the modules of a file, and of all that it reaches, are looked for in."""
    return tuple(dict.fromkeys(place.resolve() for place in (file.parent, *folders, _PACKAGE.parent)))


def direct(file: Path, places: tuple[Path, ...]) -> tuple[list[Path], set[str]]:
    """Returns the files that a file imports itself, looked for in these folders, and other top-level modules.

    This package's `__init__` is not among them: it imports only what is asked of it.
    """
    every = uses(file, places)
    files = dict.fromkeys(use.file for use in every if use.file is not None and use.file != TOP)
    return list(files), {use.elsewhere.partition(".")[0] for use in every} - {""}


def uses(file: Path, places: tuple[Path, ...]) -> list[Use]:
    """Returns what a file imports, looked for in these folders."""
    return _uses(file, _changed(file), places)


def syntax(file: Path) -> Syntax:
    """Returns the syntax of a file. Raises UserError where it is missing or is not Python."""
    return _syntax(file, _changed(file))


def beside(file: Path) -> dict[str, Path]:
    """The files in a file's own folder that its imports reach, also through each other, by top-level module."""
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
    """The same, looked up once in a process: most files import the same few modules."""
    return _resolved(name, places)


def _resolved(name: str, places: Iterable[Path]) -> list[Path]:
    """The module's file in the first place that has it, with the `__init__.py` of the packages that it is in."""
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
        raise UserError(f"there is no file {file.name!r}; check its path in params.yaml") from None
    name = hashlib.blake2b(written, digest_size=16).hexdigest()
    if name not in read:
        try:
            read[name] = earlier[name] if name in earlier else parsed(written)
        except SyntaxError as error:
            place = f"{_shown(file)}, line {error.lineno}" if error.lineno else _shown(file)
            raise UserError(f"{place}: {error.msg}; correct the code") from error
        except ValueError as error:
            raise UserError(f"{_shown(file)} is not Python that can be read ({error}); correct it") from error
    return read[name]


def _shown(file: Path) -> str:
    """The path of a file, from the current folder where it lies in there."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
