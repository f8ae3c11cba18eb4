"""The code that made a result: the first-party files that its Python files reach by imports, and package versions.

A record is read off the syntax; nothing is executed. What cannot change a result is left out (`NEUTRAL`), so that an
edit of the progress bar makes nothing stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from epsilometer.core.component import PACKAGE
from epsilometer.core.imports import reached
from epsilometer.models import devices

Record = dict[str, dict[str, str]]
"""`files`: hash by path from the project (of a file elsewhere by its name); `packages`: version by name; `device`: what
the code computes on, where it asks for that."""

# How work is run, shown and guarded. That results have the same bytes whatever happens here is tested by
# tests/runtime/test_scaling.py, tests/pipeline/test_pipeline.py (runtime settings) and test_kills.py.
NEUTRAL = ("runtime", "pipeline/guard")

packages: dict[str, Mapping[str, list[str]]] = {}
"""The distributions that each top-level module comes from, by `installed`. Asking all of them takes some 0.3 s."""

_NAMING = ("METADATA", "PKG-INFO", "RECORD", "top_level.txt")  # files of a distribution that say which modules it has

_DIGITS = 16  # of a hash, in hexadecimal: 64 bits, far from collisions among a project's files


def record(files: Iterable[Path], project: Path) -> Record:
    """Returns the record of some Python files and of all that their imports reach.

    Imports inside functions count, those for type checking alone do not. Modules are looked for beside the file that
    was given (as `component.module` has Python do), then in the project, then where this package lies; the rest are
    packages. Templates and grammars that lie beside a module of this package count as its code. Raises UserError where
    a file is missing or is not Python.
    """
    own, above, modules = set[Path](), set[Path](), set[str]()
    for file in files:
        files_reached, others = reached(file, [project], _counts)
        own.update(files_reached)
        above.update(_packages(file.resolve()))
        modules |= others
    own |= above | {file for folder in {file.parent for file in own} for file in _read_beside(folder)}
    made_of = {"files": hashes(sorted(own), project), "packages": versions(modules)}
    return made_of | ({"device": devices.described()} if Path(devices.__file__) in own else {})


def digest(settings: Any, texts: Iterable[str], code: Iterable[Path], data: Iterable[Path], project: Path) -> str:
    """Returns a name for all that rewrites depend on, so that a run continues another's work only if nothing changed.

    settings: anything that JSON can hold; code: Python files, which count with all that they reach; data: files and
    folders, by path, size and time of change, Python files among them as code.
    """
    files = sorted(file for path in data for file in (path, *path.rglob("*")) if file.is_file())
    python = [*code, *(file for file in files if file.suffix == ".py")]
    traces = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    inputs = json.dumps([settings, record(python, project), traces], sort_keys=True)
    name = hashlib.blake2b(inputs.encode(), digest_size=8)
    for text in texts:
        name.update(f"{len(text)} {text}".encode())
    return name.hexdigest()


def hashes(paths: Iterable[Path], project: Path) -> dict[str, str]:
    """Returns the hash of each file, and of each file in a folder, by path from the project."""
    files = [
        file for path in paths for file in ([path] if not path.is_dir() else sorted(path.rglob("*"))) if file.is_file()
    ]
    return {_shown(file, project): _hash(file, file.stat().st_mtime_ns) for file in files}


def versions(modules: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the packages that top-level modules come from; `absent` where there is none."""
    others = sorted(set(modules) - sys.stdlib_module_names)
    names = sorted({name for module in others for name in _distributions().get(module, ["?" + module])})
    return {name.removeprefix("?"): "absent" if name[0] == "?" else _version(name) for name in names}


@cache
def _packages(file: Path) -> list[Path]:
    """The `__init__.py` of the packages that a module of this package is in, which Python runs before it."""
    folders = [folder for folder in file.parents if folder.is_relative_to(PACKAGE) and folder != PACKAGE]
    return [folder / "__init__.py" for folder in folders if (folder / "__init__.py").is_file()]


@cache
def _read_beside(folder: Path) -> list[Path]:
    """What modules of this package read beside themselves, templates and grammars; nothing in any other folder."""
    return (
        [file for end in ("j2", "yaml") for file in folder.glob(f"*.{end}")] if folder.is_relative_to(PACKAGE) else []
    )


@cache
def _counts(file: Path) -> bool:
    return not any(file.is_relative_to(PACKAGE / folder) for folder in NEUTRAL)


@cache
def _shown(path: Path, project: Path) -> str:
    """The path from the project's folder, or from this package's; the name alone of a file elsewhere."""
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
    """Returns a hash of what is installed: of the files that name a distribution's modules, size and time of change."""
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
