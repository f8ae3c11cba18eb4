"""The files that a Python file uses: those that its imports reach, read off their syntax. Nothing is executed."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from epsilometer.core.errors import UserError

_PACKAGE = Path(__file__).parents[1]
_TOP = _PACKAGE / "__init__.py"

Statements = list[tuple[list[str], int]]
"""The imports of a file: the modules that each may mean, and its level where it is relative, else 0."""

statements: dict[str, Statements] = {}
earlier: dict[str, Statements] = {}
"""By the hash of a file's bytes, as read by this process and by those before it (`project.remembered`). Parsing is most
of the work, and equal bytes import the same."""


def reached(
    file: Path, folders: Sequence[Path] = (), follow: Callable[[Path], bool] = lambda _: True
) -> tuple[list[Path], set[str]]:
    """The files that a file's imports reach, itself first, and the names of the top-level modules that lie elsewhere.

    Imports inside functions count, those for type checking alone do not. Modules are looked for beside the file (as
    `component.module` has Python do), then in `folders`, then where this package lies; a module that is in none of
    them is a library's, and is not followed. Nor is this package's `__init__`, which imports only what is asked of it.
    follow: which files count. Raises UserError where a file is missing or is not Python.
    """
    places = tuple(dict.fromkeys(place.resolve() for place in (file.parent, *folders, _PACKAGE.parent)))
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


def direct(file: Path, places: tuple[Path, ...]) -> tuple[list[Path], set[str]]:
    """Returns the files that a file imports itself, looked for in these folders, and other top-level modules.

    This package's `__init__` is not among them: it imports only what is asked of it.
    """
    try:
        changed = os.stat(file).st_mtime_ns
    except FileNotFoundError:
        changed = 0
    return _direct(file, changed, places)


def beside(file: Path) -> dict[str, Path]:
    """The files in a file's own folder that its imports reach, also through each other, by top-level module."""
    folder, todo = file.resolve().parent, [file.resolve()]
    reached: list[Path] = []
    while todo:
        path = todo.pop()
        if path in reached:
            continue
        reached.append(path)
        for names, start in _statements(path):
            todo += [path for name in names for path in _resolved(name, [start or folder])]
        todo = [path for path in todo if path.is_relative_to(folder) and not path.is_relative_to(_PACKAGE)]
    return {path.relative_to(folder).parts[0].removesuffix(".py"): path for path in reached[1:]}


@cache
def _direct(file: Path, changed: int, places: tuple[Path, ...]) -> tuple[list[Path], set[str]]:
    files: list[Path] = []
    elsewhere: set[str] = set()
    for names, folder in _statements(file):
        here = places if folder is None else (folder,)
        own = [path for name in names for path in _located(name, here)]
        files += [path for path in own if path != _TOP]
        if not own and folder is None:
            elsewhere.add(names[0].partition(".")[0])
    return files, elsewhere


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


def _statements(file: Path) -> Iterator[tuple[list[str], Path | None]]:
    """For each import the modules that it may mean, and the folder that a relative one starts from."""
    try:
        written = file.read_bytes()
    except FileNotFoundError:
        raise UserError(f"there is no file {file.name!r}; check its path in params.yaml") from None
    name = hashlib.blake2b(written, digest_size=16).hexdigest()
    if name not in statements:
        try:
            statements[name] = earlier[name] if name in earlier else list(_parsed(written))
        except SyntaxError as error:
            place = f"{_shown(file)}, line {error.lineno}" if error.lineno else _shown(file)
            raise UserError(f"{place}: {error.msg}; correct the code") from error
        except ValueError as error:
            raise UserError(f"{_shown(file)} is not Python that can be read ({error}); correct it") from error
    for names, level in statements[name]:
        yield names, file.parents[level - 1] if level else None


def _shown(file: Path) -> str:
    """The path of a file, from the current folder where it lies in there."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def _parsed(written: bytes) -> Iterator[tuple[list[str], int]]:
    todo: list[ast.AST] = [ast.parse(written)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (([alias.name], 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [name for name in [module, *(f"{module}.{alias.name}" for alias in node.names)] if name]
            yield names, node.level
        elif isinstance(node, ast.expr):
            continue  # holds no statement
        todo += ast.iter_child_nodes(node)
