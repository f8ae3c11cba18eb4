"""First-party imports of a source file, read off its syntax; what a stage really uses."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.places import ROOT

PACKAGES = ("epsilometer", "tasks", "flows", "tests")


def direct(file: Path) -> set[Path]:
    """The first-party files that a file imports anywhere, inside functions too; type-checking imports excepted."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    found: set[Path] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found.update(path for name in names if name.split(".")[0] in PACKAGES for path in _file(name))
    return found


def _file(module: str) -> list[Path]:
    path = ROOT.joinpath(*module.split("."))
    return [path.with_suffix(".py")] if path.with_suffix(".py").is_file() else []


def closure(file: Path) -> set[Path]:
    """The file and everything first-party that it imports, directly or not."""
    seen: set[Path] = set()
    todo = [file]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo.extend(direct(path))
    return seen
