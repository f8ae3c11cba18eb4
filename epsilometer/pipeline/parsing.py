"""YAML parsed and validated once, and parameters looked up by their names.

DVC reads params.yaml anew for each stage, and dvc.lock several times, with a parser in Python that takes some 20 ms a
file, and finds each parameter by comparing its name with all that the file has: with nothing changed, that is half of
its time. `once` lets it go on reading the files, so that an edit is seen as before, and remembers what a text means and
by which schemas it is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from typing import Any

import dpath
from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml

from epsilometer.core.yaml_text import check_aliases

_TEXTS = 8  # remembered: a project's few files, in their latest versions
_PATTERN = frozenset("*?[")  # what makes a pattern of a name


@contextmanager
def once() -> Iterator[None]:
    """Have DVC parse and validate equal texts once, and look parameters up, for as long as this lasts."""
    parse, search, check = _yaml.parse_yaml, dpath.get, strictyaml.validate
    valid: dict[int, tuple[Any, str]] = {}  # a schema and the last text that is valid by it; schemas have no hash

    @lru_cache(_TEXTS)
    def plain(text: str, path: str) -> tuple[Any, str | None]:
        check_aliases(text)
        content = parse(text, path)
        try:
            written = json.dumps(content)
        except (TypeError, ValueError):
            return content, None
        return content, written if json.loads(written) == content else None

    def parsed(text: str, path: str, typ: str = "safe") -> Any:
        if typ != "safe":
            return parse(text, path, typ)  # with its comments
        content, written = plain(text, path)
        return deepcopy(content) if written is None else json.loads(written)  # a fifth of the time

    def validated(data: Any, schema: Any, text: str | None = None, path: Any = None, rev: Any = None) -> Any:
        if text is None:
            return check(data, schema, text, path=path, rev=rev)
        if valid.get(id(schema)) != (schema, text):
            check(data, schema, text, path=path, rev=rev)
            valid[id(schema)] = schema, text
        return data

    def looked_up(content: Any, name: str, separator: str = "/", **more: Any) -> Any:
        value = content
        for part in name.split(separator):
            if not isinstance(value, dict) or part not in value or not _PATTERN.isdisjoint(part):
                return search(content, name, separator, **more)  # a pattern, a list's place, what there is not
            value = value[part]
        return value

    _yaml.parse_yaml = strictyaml.parse_yaml = parsed
    strictyaml.validate = validated
    dpath.get = looked_up  # type: ignore[assignment]
    try:
        yield
    finally:
        _yaml.parse_yaml = strictyaml.parse_yaml = parse
        strictyaml.validate = check
        dpath.get = search
