"""YAML parsed once.

DVC reads params.yaml anew for each stage, and dvc.lock several times, with a parser in Python that takes some 20 ms a
file: with nothing changed, that is a third of its time. `once` lets it go on reading the files, so that an edit is seen
as before, and remembers what a text means.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from typing import Any

from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml

_TEXTS = 8  # remembered: a project's few files, in their latest versions


@contextmanager
def once() -> Iterator[None]:
    """Have DVC parse equal texts once for as long as this lasts."""
    parse = _yaml.parse_yaml
    plain = lru_cache(_TEXTS)(parse)

    def parsed(text: str, path: str, typ: str = "safe") -> Any:
        return deepcopy(plain(text, path)) if typ == "safe" else parse(text, path, typ)  # else with its comments

    _yaml.parse_yaml = strictyaml.parse_yaml = parsed
    try:
        yield
    finally:
        _yaml.parse_yaml = strictyaml.parse_yaml = parse
