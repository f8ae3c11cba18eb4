"""Progress of long work: a bar on a terminal, a line now and then otherwise, which `parse` reads again."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tqdm import tqdm

from epsilometer.errors import printable

T = TypeVar("T")

_SECONDS = 10.0  # between two lines
_LINE = re.compile(r"(?P<label>.+): (?P<done>\d+) of (?P<total>\d+), about (?P<left>\d+) s left")


@dataclass(frozen=True)
class Progress:
    """done of total items; left: seconds, as expected from the items so far. Its string is the line that is printed."""

    label: str
    done: int
    total: int
    left: int

    def __str__(self) -> str:
        return f"{self.label}: {self.done} of {self.total}, about {self.left} s left"


def parse(line: str) -> Progress | None:
    """What a line of a program's output says about its progress, if anything."""
    found = _LINE.fullmatch(line.strip())
    return found and Progress(found["label"], int(found["done"]), int(found["total"]), int(found["left"]))


def note(text: str) -> None:
    """Print something worth knowing on standard error."""
    print(f"note: {printable(text)}", file=sys.stderr, flush=True)


def now_and_then() -> Callable[[str], None]:
    """Prints a line on standard error, unless the last one, or the beginning, was a moment ago."""
    last = time.monotonic()

    def say(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS:
            print(text, file=sys.stderr, flush=True)
            last = time.monotonic()

    return say


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """The items, with progress on standard error."""
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, desc=label, leave=False)
        return
    begun = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last >= _SECONDS:
            print(
                Progress(label, done, total, round((now - begun) / done * (total - done))), file=sys.stderr, flush=True
            )
            last = now
        yield item
    if last > begun:
        print(Progress(label, total, total, 0), file=sys.stderr, flush=True)
