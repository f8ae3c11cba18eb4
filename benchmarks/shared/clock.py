"""How long work takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """What work returns, and the wall clock's and the processor's seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - processor


def seconds(work: Callable[[], object]) -> float:
    """The wall clock's, of one call."""
    return timed(work)[1]
