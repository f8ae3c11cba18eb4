"""The code that made a result: the first-party files that imports reach, and the versions of packages.

A record of this code is computed from the files' syntax; nothing is executed. Code that cannot change a result is left
out (`NEUTRAL`), so an edit of the progress bar, for example, makes no result stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from epsilometer.core.component import PACKAGE
from epsilometer.core.imports import TOP, direct, searched, syntax, uses
from epsilometer.models import devices

Record = dict[str, Any]
"""`files`: the hash of each file's syntax (for a data file, of its path and content). The key of a file is a second
hash, which also covers the file's imports. `imports`: the hash of the graph of imports. `packages`: versions by name.
`device`: the device that the code computes on, if the code asks for one. A record contains no path of a module."""

# Code that runs stages, shows their progress and checks their inputs. Tests check that such code never changes the
# bytes of results: tests/runtime/test_scaling.py, tests/pipeline/test_pipeline.py (runtime settings) and test_kills.py.
NEUTRAL = ("runtime", "pipeline/guard")

packages: dict[str, Mapping[str, list[str]]] = {}
"""The distributions of each top-level module, by the state that `installed` returns. Computing them takes 0.3 s."""

_NAMING = ("METADATA", "PKG-INFO", "RECORD", "top_level.txt")  # files of a distribution that name its modules

_DIGITS = 16  # hexadecimal digits of a hash: 64 bits, far from collisions among a project's files


def record(files: Iterable[Path], project: Path) -> Record:
    """Return the record of some Python files and of everything that their imports reach (`Reading.code`)."""
    return Reading(project).code(files).record


@dataclass(frozen=True)
class Code:
    """The code that some Python files reach."""

    record: Record
    paths: dict[str, list[str]]
    """Paths of files, by the files' keys in the record. The record itself has no paths, so a module can move."""

    def by_path(self) -> Record:
        """Return the record with its `files` by path instead of by key, and without `imports`."""
        files = {path: self.record["files"][key] for key, paths in self.paths.items() for path in paths}
        return {"files": dict(sorted(files.items()))} | {
            kind: of for kind, of in self.record.items() if kind not in ("files", "imports")
        }


@dataclass(frozen=True)
class _File:
    own: str
    """Hash of the file's own code; empty for a file without code, such as most `__init__.py`."""
    key: str
    """Hash of `own`, of the own code of the file's imports, and of the templates and grammars in its folder."""
    uses: list[tuple[str, str, Path]]
    """Imports of first-party files: name in this file, name in the module, path. Paths have no effect on the order."""


@dataclass(frozen=True)
class _Reached:
    files: dict[Path, tuple[str, str]]
    """Key and own hash by path."""
    modules: set[str]
    imports: str
    """Hash of the graph of imports."""


class Reading:
    """Reads the present code of a project, each file once."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._reached: dict[Path, _Reached] = {}
        self._owns: dict[tuple[Path, tuple[Path, ...]], str] = {}
        self._files: dict[tuple[Path, tuple[Path, ...]], _File] = {}
        self._folders: dict[Path, dict[Path, str]] = {}

    def code(self, files: Iterable[Path], data: Iterable[Path] = ()) -> Code:
        """Return the code of some Python files and of everything that their imports reach, with files of data.

        Imports inside functions count; imports only for type checking do not. Modules are searched in the folder of the
        given file (as Python does for `component.module`), then in the project, then in the folder of this package. A
        module that is in none of these folders belongs to an installed package. Templates and grammars in the folder of
        a module of epsilometer count as the module's code. Raises UserError for a file that is missing or not Python.
        """
        roots = {_called(file.resolve(), self._project): self._follow(file.resolve()) for file in files}
        every = {path: hashes for root in roots.values() for path, hashes in root.files.items()}
        for name, content in hashes(data, self._project).items():
            every[self._project / name] = (_digest(name, content),) * 2
        paths: dict[str, list[str]] = {}
        for path in sorted(every):
            paths.setdefault(every[path][0], []).append(_shown(path, self._project))
        made_of: Record = {
            "files": dict(sorted(every.values())),
            "imports": _digest(*(f"{name} {root.imports}" for name, root in sorted(roots.items()))),
            "packages": versions({module for root in roots.values() for module in root.modules}),
        }
        return Code(made_of | ({"device": devices.described()} if Path(devices.__file__) in every else {}), paths)

    def _follow(self, root: Path) -> _Reached:
        """Follow the imports of a file, and number the files in the order in which they are reached.

        The hash of the graph uses these numbers instead of paths. So the hash stays the same if files move, as long as
        the files' hashes and the imported names stay the same.
        """
        if root in self._reached:
            return self._reached[root]
        places = searched(root, [self._project])
        numbers = {root: 0} | {file: number for number, file in enumerate(_packages(root), 1)}
        files, modules, written = dict[Path, tuple[str, str]](), set[str](), list[str]()
        todo = list(numbers)
        for path in todo:
            file = self._file(path, places)
            for bound, name, used in file.uses:
                if used not in numbers:
                    numbers[used] = len(numbers)
                    todo.append(used)
                written.append(f"{bound} {name} {numbers[used]}")
            written.append(file.key)
            files[path] = (file.key, file.own)
            files |= {each: (content, content) for each, content in self._beside(path.parent).items()}
            modules |= direct(path, places)[1]
        self._reached[root] = _Reached(files, modules, _digest(*written))
        return self._reached[root]

    def _file(self, path: Path, places: tuple[Path, ...]) -> _File:
        if (path, places) not in self._files:
            own = self._own(path, places)
            counted = [(use, use.file) for use in uses(path, places) if use.file is not None and _counts(use.file)]
            every = {(use.bound, use.name, self._own(file, places), file) for use, file in counted}
            used = sorted(each for each in every if each[2])
            near = [f"{bound} {name} {hashed}" for bound, name, hashed, _ in used]
            key = _digest(own, *near, *sorted(self._beside(path.parent).values()))
            self._files[path, places] = _File(own, key, [(bound, name, file) for bound, name, _, file in used])
        return self._files[path, places]

    def _own(self, path: Path, places: tuple[Path, ...]) -> str:
        """Return the hash of a file's syntax tree and of its imports, without the paths of first-party modules.

        The hash is empty if the file has no code, and its folder has no templates or grammars.
        """
        if (path, places) not in self._owns:
            tree, imports = syntax(path)
            said = {(use.bound, use.name, use.elsewhere) for use in uses(path, places)} - {("", "", "")}
            empty = not (tree or imports or self._beside(path.parent))
            self._owns[path, places] = "" if empty else _digest(tree, *(" ".join(each) for each in sorted(said)))
        return self._owns[path, places]

    def _beside(self, folder: Path) -> dict[Path, str]:
        if folder not in self._folders:
            self._folders[folder] = _read_beside(folder)
        return self._folders[folder]


def digest(settings: Any, texts: Iterable[str], code: Iterable[Path], data: Iterable[Path], project: Path) -> str:
    """Return a digest of everything that rewrites depend on, so that a stopped run resumes only if all is unchanged.

    settings: any JSON value. code: Python files; everything that their imports reach counts too. data: files and
    folders, which count by path, size and time of change; Python files among them count as code.
    """
    files = sorted(file for path in data for file in (path, *path.rglob("*")) if file.is_file())
    python = [*code, *(file for file in files if file.suffix == ".py")]
    others = (file for file in files if file.suffix != ".py")
    traces = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in others]
    inputs = json.dumps([settings, record(python, project), traces], sort_keys=True)
    name = hashlib.blake2b(inputs.encode(), digest_size=8)
    for text in texts:
        name.update(f"{len(text)} {text}".encode())
    return name.hexdigest()


def paths(codes: Iterable[Code]) -> dict[str, list[str]]:
    """Return the paths of the files of several records, by key."""
    every: dict[str, set[str]] = {}
    for each in codes:
        for key, named in each.paths.items():
            every.setdefault(key, set()).update(named)
    return {key: sorted(every[key]) for key in sorted(every)}


def hashes(paths: Iterable[Path], project: Path) -> dict[str, str]:
    """Return the hash of each file, and of each file in a folder, by path from the project."""
    files = [
        file for path in paths for file in ([path] if not path.is_dir() else sorted(path.rglob("*"))) if file.is_file()
    ]
    return {_shown(file, project): _hash(file, file.stat().st_mtime_ns) for file in files}


def versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages that top-level modules come from; `absent` for a missing package."""
    others = sorted(set(modules) - sys.stdlib_module_names)
    names = sorted({name for module in others for name in _distributions().get(module, ["?" + module])})
    return {name.removeprefix("?"): "absent" if name[0] == "?" else _version(name) for name in names}


@cache
def _packages(file: Path) -> list[Path]:
    """Return the `__init__.py` files that Python runs before a module of this package."""
    folders = [folder for folder in file.parents if folder.is_relative_to(PACKAGE) and folder != PACKAGE]
    inits = [folder / "__init__.py" for folder in folders]
    return [init for init in inits if init.is_file() and init != file]


def _read_beside(folder: Path) -> dict[Path, str]:
    """Return the hashes of templates and grammars in a folder of this package; empty for any other folder.

    Modules read these files by name, so no import reaches them.
    """
    if not folder.is_relative_to(PACKAGE):
        return {}
    files = [file for end in ("j2", "yaml") for file in folder.glob(f"*.{end}")]
    return {file: _digest(file.name, _hash(file, file.stat().st_mtime_ns)) for file in files}


@cache
def _counts(file: Path) -> bool:
    return file != TOP and not any(file.is_relative_to(PACKAGE / folder) for folder in NEUTRAL)


def _called(file: Path, project: Path) -> str:
    """Return a file's name in settings: the stem for a file of this package, the path for a user's file."""
    return file.stem if file.is_relative_to(PACKAGE) else _shown(file, project)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]


@cache
def _shown(path: Path, project: Path) -> str:
    """Return the path relative to the project's folder or this package's; for a file elsewhere, only its name."""
    for folder in (project, PACKAGE.parent):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.name


@cache
def _hash(file: Path, changed: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:_DIGITS]


@cache
def _distributions() -> Mapping[str, list[str]]:
    state = installed()
    if state not in packages:
        packages[state] = metadata.packages_distributions()
    return packages[state]


def installed() -> str:
    """Return a hash of the installation, from the size and time of change of the files that list installed modules."""
    traces = []
    for folder in sys.path:
        with suppress(OSError):
            every = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
            for path in (os.path.join(folder, name, file) for name in sorted(every) for file in _NAMING):
                with suppress(OSError):
                    traces.append((path, os.stat(path).st_size, os.stat(path).st_mtime_ns))
    return hashlib.blake2b(repr(traces).encode(), digest_size=16).hexdigest()


@cache
def _version(name: str) -> str:
    return metadata.version(name)
