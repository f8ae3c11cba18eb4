"""Parameters of tests of which a few run every time, and all before a release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """The values as parameters, of which those after the first `count` are marked slow."""
    every = [value if isinstance(value, tuple) else (value,) for value in values]
    marks = [[] if number < count else [pytest.mark.slow] for number in range(len(every))]
    return [pytest.param(*value, marks=mark) for value, mark in zip(every, marks, strict=True)]
