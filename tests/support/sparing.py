"""Test parameters of which only a few run every time; the others run before a release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """Return the values as test parameters; those after the first `count` are marked slow."""
    every = [value if isinstance(value, tuple) else (value,) for value in values]
    marks = [[] if number < count else [pytest.mark.slow] for number in range(len(every))]
    return [pytest.param(*value, marks=mark) for value, mark in zip(every, marks, strict=True)]
