"""Progress of long work: a bar on a terminal, a line now and then otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

_SECONDS = 10.0  # between two lines


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """The items, with progress on standard error."""
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, desc=label, leave=False)
        return
    begun = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last >= _SECONDS:
            left = (now - begun) / done * (total - done)
            print(f"{label}: {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)
            last = now
        yield item
