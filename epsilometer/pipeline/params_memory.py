"""Let DVC parse params.yaml once for each state of the file, instead of once for each stage that reads it.

DVC's YAML parser is written in Python. A project with hundreds of stages spent minutes in it before the first stage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from dvc.dependency import param


class _Files(Protocol):
    def open(self, path: str, mode: str) -> Any: ...


_parse: Callable[..., Any] = param.load_path


@cache
def install() -> None:
    """Replace DVC's reader of parameter files, in this process and the processes forked from it."""
    param.load_path = _Memory()


class _Memory:
    """The last content of each file, and what was parsed from it. DVC reads the result and does not change it."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[bytes, Any]] = {}

    def __call__(self, path: str, files: _Files, **options: Any) -> Any:
        with files.open(path, "rb") as file:
            content = file.read()
        last = self._last.get(str(path))
        if last is None or last[0] != content:
            last = self._last[str(path)] = content, _parse(path, files, **options)
        return last[1]
