"""Timing of function calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result of the work, its wall-clock time and its processor time, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - processor


def seconds(work: Callable[[], object]) -> float:
    """Return the wall-clock time of one call."""
    return timed(work)[1]
