"""The syntax of a Python file: its imports, and a hash that ignores prose and layout. Nothing is executed.

The syntax tree is written out node by node, without empty fields. So this hash is the same under Python 3.11 and newer,
unlike a hash of `ast.dump`. Unlike a hash of tokens, it ignores quotes, parentheses, trailing commas and implicit joins
of strings. It also ignores docstrings, other bare strings, comments and blocks for type checking.

Imports are stored apart from the tree, so that a moved module changes no hash. A name that only one import binds,
without `as`, is replaced by a number, in order of first use. So `atomic.write_text` after `from core import atomic` has
the same hash as `files.write_text` after `from core import files`.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_IGNORED = {"ctx", "kind", "type_comment", "type_ignores"}  # fields that other fields imply, or that have no effect
_BODIES = ("body", "orelse", "finalbody")


class Import(NamedTuple):
    """One name that a file imports."""

    modules: list[str]
    """The possible modules: `a` and `a.b` for `from a import b`."""
    level: int
    """The number of dots of a relative import, else 0."""
    name: str
    """The name within the module; empty for `import a`."""
    bound: str
    """The name in the file, or its number. If the name has other bindings, the import's place follows."""


class Syntax(NamedTuple):
    """The hash of a file's tree (empty for a file without code), and the file's imports."""

    tree: str
    imports: list[Import]


def parsed(written: bytes) -> Syntax:
    """Return the syntax of a file's bytes. Raises SyntaxError or ValueError if they are not Python."""
    tree = ast.parse(written)
    for node in ast.walk(tree):
        for field in _BODIES:
            if isinstance(body := getattr(node, field, None), list):
                setattr(node, field, list(_code(body)))
    once = _bound_once(tree)
    items, numbers, imports = _written(tree, {name for name, plain in once.items() if plain})
    digest = hashlib.blake2b("\0".join(items).encode(), digest_size=16).hexdigest() if items else ""
    return Syntax(digest, list(_listed(imports, once, numbers)))


def _code(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block that can change a result."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if not isinstance(statement.value.value, str):
                yield statement
        elif isinstance(statement, ast.If) and _is_for_types(statement.test):
            yield from _code(statement.orelse)
        else:
            yield statement


def _is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _aliases(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[list[str], int, str, str]]:
    """For each import, yield the possible modules, the level, the name in the module, and the name in the file."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield [alias.name], 0, "", alias.asname or alias.name
        else:
            module = node.module or ""
            whole = f"{module}.{alias.name}".strip(".")
            yield [module, whole] if module else [whole], node.level, alias.name, alias.asname or alias.name


def _bound_once(tree: ast.AST) -> dict[str, bool]:
    """Return the names that only one import binds, each with True if the import has no `as`.

    An import that occurs in several places counts as one import. Python's built-in names are excluded. In a file with
    `from a import *`, all names are excluded.
    """
    sources: defaultdict[str, set[tuple[str, int, str]]] = defaultdict(set)
    others = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for modules, level, name, bound in _aliases(node):
                sources[bound].add((modules[-1], level, name or modules[0]))
                if "." in bound:
                    others.add(bound.partition(".")[0])
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                others.add(node.id)
        elif not isinstance(node, ast.Attribute | ast.keyword | ast.Constant | ast.alias):
            for _, value in ast.iter_fields(node):
                others.update(text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
    if "*" in sources:
        return {}
    single = {bound: next(iter(of)) for bound, of in sources.items() if len(of) == 1 and "." not in bound}
    return {bound: bound == name for bound, (_, _, name) in single.items() if bound not in others}


def _written(tree: ast.Module, plain: set[str]) -> tuple[list[str], dict[str, int], list[tuple[Any, int]]]:
    """Return a tree's items in pre-order, the numbers of plain names, and the import statements with their places."""
    items: list[str] = []
    numbers: dict[str, int] = {}
    imports: list[tuple[Any, int]] = []
    todo: list[Any] = list(reversed(tree.body))
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.AST):
            items.append(node if isinstance(node, str) else _value(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append((node, len(items)))
        elif isinstance(node, ast.Name) and node.id in plain:
            items.append(f"Name {numbers.setdefault(node.id, len(numbers))}")
        elif isinstance(node, ast.Constant):
            items.append(_value(node.value))
        else:
            todo += reversed(list(_fields(node)))
    return items, numbers, imports


def _fields(node: ast.AST) -> Iterator[Any]:
    """Yield the parts of a node that are written out: its kind, the names of its fields, and the fields' values."""
    yield f"{type(node).__name__}("
    for field, value in ast.iter_fields(node):
        if field in _IGNORED or value is None or value == []:
            continue
        if isinstance(value, list):
            yield f"{field}["
            # Strings in lists are names, such as the names after `global`.
            texts = _joined(value) if isinstance(node, ast.JoinedStr) else value
            yield from (_value(each) if isinstance(each, str) else each for each in texts)
            yield "]"
        else:
            yield f"{field}="
            yield _value(value) if isinstance(value, str) else value
    yield ")"


def _joined(values: list[ast.expr]) -> Iterator[ast.expr]:
    """Yield the parts of an f-string, with adjacent texts joined, since versions of Python split texts differently."""
    text = ""
    for part in values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        yield part
    if text:
        yield ast.Constant(text)


def _value(value: Any) -> str:
    """Return a constant as ASCII text. For new characters, the result of `repr` depends on the version of Python."""
    return f"{type(value).__name__} {hex(value) if type(value) is int else ascii(value)}"


def _listed(imports: list[tuple[Any, int]], once: Mapping[str, bool], numbers: Mapping[str, int]) -> Iterator[Import]:
    """Yield the imports, each with its name in the code. A name with several bindings also gets the import's place."""
    competing = 0
    for node, place in imports:
        for modules, level, name, bound in _aliases(node):
            shown = bound
            if bound in once:
                shown = str(numbers.get(bound, "")) if once[bound] else bound
            elif "." not in bound:
                shown = f"{bound} at {place}, {competing}"
                competing += 1
            yield Import(modules, level, name, shown)
