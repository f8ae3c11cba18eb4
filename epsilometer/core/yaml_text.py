"""Safe reading of YAML: aliases cannot expand beyond a bound on memory and time.

A line such as `a: [*b, *b]` repeats the line before it twice. A few such lines expand to billions of values, and code
that walks over these values never ends. So this module counts the values before it builds anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import yaml

from epsilometer.core import resource_limits
from epsilometer.core.errors import UserError
from epsilometer.core.values import is_plain

_DEEPEST = 100  # levels of nested values
_C: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader, if built in, is ten times as fast
_LINE = 100  # characters of a string that count as one value


class FAST(_C):
    """Loader that reads 5e-05 as a number, as YAML 1.2 does. DVC writes such numbers, which YAML 1.1 reads as text."""


FAST.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def load(text: str | bytes, loader: Any = FAST, *, plain: bool = False) -> Any:
    """Return the value of a YAML text. Raises yaml.YAMLError, and UserError if aliases expand to too many values.

    plain: True to refuse numbers that YAML reads as other numbers, such as 010 (as 8) and 1:30 (as 90).
    """
    _check_depth(text)
    reader = loader(text)
    with _in_bounds():
        try:
            root = reader.get_single_node()
            if root is None:
                return None
            _check(root)
            if plain:
                _check_numbers(root)
            return reader.construct_document(root)
        finally:
            reader.dispose()


def check_aliases(text: str | bytes) -> None:
    """Raise the errors of `load` for aliases and nesting, without building the value."""
    if b"*" in (text.encode() if isinstance(text, str) else text):
        _check_depth(text)
        with _in_bounds():
            if (root := yaml.compose(text, FAST)) is not None:
                _check(root)


def _check_depth(text: str | bytes) -> None:
    """Raise UserError for deep nesting, which would crash the process: the C library recurses without a limit."""
    signs: Sequence[Any] = "[{-?:" if isinstance(text, str) else [b"[", b"{", b"-", b"?", b":"]
    if sum(map(text.count, signs)) <= _DEEPEST:  # each level needs at least one sign
        return
    depth = 0
    with suppress(yaml.YAMLError):  # `load` reports these errors when it reads the text
        for event in yaml.parse(text, FAST):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise _too_deep()


def _too_deep() -> UserError:
    return UserError(f"its values are nested more than {_DEEPEST} levels deep; write them flatter", "EPS-C071")


@contextmanager
def _in_bounds() -> Iterator[None]:
    """Raise UserError for values that YAML allows and Python does not."""
    try:
        yield
    except RecursionError:  # the Python loader recurses at each level
        raise UserError("its values are nested too deeply; write them flatter", "EPS-C072") from None
    except UserError:
        raise
    except ValueError:  # from numbers with thousands of digits, or an impossible date
        raise UserError(
            "it contains an invalid number or date; correct it, or quote it if it is text", "EPS-C073"
        ) from None


def _check(root: yaml.Node) -> None:
    """Raise UserError if aliases nest too deeply or repeat too many values, or if a node contains itself."""
    sizes: dict[int, tuple[int, int] | None] = {}  # values and levels that each node expands to; None: being counted
    written = 0

    def size(node: yaml.Node) -> tuple[int, int]:
        nonlocal written
        if id(node) not in sizes:
            sizes[id(node)] = None
            own = 1 + (len(node.value) // _LINE if isinstance(node, yaml.ScalarNode) else 0)
            written += own
            parts = [size(child) for child in _children(node)]
            levels = max((level for _, level in parts), default=-isinstance(node, yaml.ScalarNode)) + 1
            sizes[id(node)] = own + sum(count for count, _ in parts), levels
            if levels > _DEEPEST:
                raise _too_deep()
        if (total := sizes[id(node)]) is None:
            raise UserError(f"an anchor{_place(node)} contains an alias of itself; write the value out", "EPS-C074")
        return total

    if size(root)[0] - written > resource_limits.YAML_NODES.value:
        raise UserError(
            f"aliases (*name) repeat more than {resource_limits.YAML_NODES.value} values, or lines of {_LINE} "
            f"characters; write the values out, or, {resource_limits.YAML_NODES.remedy}",
            "EPS-C075",
        )


def _check_numbers(root: yaml.Node) -> None:
    """Raise UserError for a number in octal, in base 60 or with underscores, before its notation is lost."""
    seen, left = set[int](), [root]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        left += _children(node)
        number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if number and not is_plain(node.value.lower().replace(".inf", "inf").replace(".nan", "nan")):
            raise UserError(
                f"a number of {len(node.value)} characters{_place(node)} is not in plain digits, so YAML would read "
                "another number (010 as 8, 1:30 as 90); write it in plain digits, or quote it if it is text",
                "EPS-C076",
            )


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _place(node: yaml.Node) -> str:
    return f" in line {node.start_mark.line + 1}" if node.start_mark else ""
