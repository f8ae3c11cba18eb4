"""Progress of long work: a bar on a terminal, otherwise an occasional line that `parse` can read."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tqdm import tqdm

from epsilometer.core.errors import printable
from epsilometer.runtime.streams import notes

T = TypeVar("T")

_SECONDS = 10.0  # smallest time between two printed lines
_PART = 3.0  # seconds per part of paced work
_EARLY, _LONG = 3.0, 15.0  # seconds of work before an estimate is printed; shortest estimate that is printed
_BAR = "{l_bar}{bar}| {elapsed}<{remaining}"
_LINE = re.compile(r"(?P<label>.+): (?P<done>\d+) of (?P<total>\d+), about (?P<left>\d+) s left")


def say(text: str) -> None:
    """Print a line to the stream for notes. The line must not quote a private text."""
    print(text, file=notes(), flush=True)


@dataclass(frozen=True)
class Progress:
    """Progress: `done` of `total` items, and an estimate of the seconds `left`. `str` returns the printed line."""

    label: str
    done: int
    total: int
    left: int

    def __str__(self) -> str:
        return f"{self.label}: {self.done} of {self.total}, about {self.left} s left"


def parse(line: str) -> Progress | None:
    """Return the progress in a line of a program's output; None for any other line."""
    match = _LINE.fullmatch(line.strip())
    return match and Progress(match["label"], int(match["done"]), int(match["total"]), int(match["left"]))


def note(text: str) -> None:
    """Print a note."""
    say(f"note: {printable(text)}")


def warn(text: str) -> None:
    """Print a warning that puts a result in doubt."""
    say(f"warning: {printable(text)}")


def now_and_then() -> Callable[[str], None]:
    """Return a function that prints at most one line per `_SECONDS` seconds. It is silent for the first `_SECONDS`."""
    last = time.monotonic()

    def sometimes(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS:
            say(text)
            last = time.monotonic()

    return sometimes


def track(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield the items, and report the progress. Inside `PacedWork`, the progress of the whole work is reported."""
    if _pace is not None and not _pace.silent:
        yield from _pace.part(items, total)
        return
    begun = last = time.monotonic()
    terminal = notes().isatty()
    bar = tqdm(items, total=total, desc=label, leave=False, delay=1, file=notes()) if terminal else items
    for done, item in enumerate(bar):
        now = time.monotonic()
        if not terminal and done and now - last >= _SECONDS:
            say(str(Progress(label, done, total, round((now - begun) / done * (total - done)))))
            last = now
        yield item
    if last > begun:
        say(str(Progress(label, total, total, 0)))


class PacedWork:
    """Work of unknown speed, done in parts of a few seconds, with reports of progress and an early estimate of time.

    label: the name in reports.
    total: the size of the work, in units of about equal effort (characters); infinite if the size is unknown, and then
    nothing is printed.
    shorter: a function from the seconds of the whole work to a hint on how to shorten the work.
    next: the largest number of units for the next part; 0 means as few as possible.

    Use an instance as a context manager. A `track` inside prints nothing itself, but advances the current part.
    """

    def __init__(self, label: str, total: float, shorter: Callable[[float], str]) -> None:
        self.next = 0.0
        self._label, self._total, self._shorter = label, max(total, 1.0), shorter
        self.silent = math.isinf(total)
        self._done = self._part = self._measured = self._seconds = self._furthest = 0.0
        self._begun = self._last = time.monotonic()
        self._said = False
        self._say = now_and_then()
        hidden = self.silent or not notes().isatty()
        self._bar = tqdm(total=1.0, desc=label, leave=False, bar_format=_BAR, delay=1, disable=hidden, file=notes())

    def __enter__(self) -> PacedWork:
        global _pace
        _pace = self
        return self

    def __exit__(self, *_: object) -> None:
        global _pace
        _pace = None
        self._bar.close()

    def begin(self, units: float) -> None:
        """Begin a part of this many units."""
        self._part, self._last = units, time.monotonic()

    def part(self, items: Iterable[T], total: int) -> Iterator[T]:
        """Yield the items of the current part, or of one of its steps, and report the progress of the whole work."""
        begun = time.monotonic()
        for done, item in enumerate(items):
            units = done / total * self._part
            if units:
                rest = self._total - self._done - units
                rate = self._seconds / self._measured if self._measured else (time.monotonic() - begun) / units
                self._report(self._done + units, self._estimate(rate, rest))
            yield item

    def end(self) -> None:
        """End the part. The first part does not count in the estimate, since models load in that part."""
        now = time.monotonic()
        if self._done:
            self._measured, self._seconds = self._measured + self._part, self._seconds + now - self._last
        self._done += self._part
        self.next = 8 * self._part
        if self._measured and self._seconds:
            rate = self._seconds / self._measured
            self.next = min(self.next, _PART / rate)
            self._report(self._done, self._estimate(rate, self._total - self._done))

    def _report(self, units: float, left: float) -> None:
        """Report the share of the whole work that is done. The share never falls, even if a part has several steps."""
        self._furthest = max(self._furthest, units / self._total)
        if not self._bar.disable:
            self._bar.update(self._furthest - self._bar.n)
        elif left and not self.silent:
            self._say(str(Progress(f"{self._label}, %", int(100 * self._furthest), 100, round(left))))

    def _estimate(self, rate: float, units: float) -> float:
        """Return the seconds left, at `rate` seconds per unit. The first estimate of many seconds is printed."""
        left = rate * units
        if not (self._said or self.silent) and time.monotonic() - self._begun >= _EARLY and left >= _LONG:
            self._said = True
            note(f"{self._label}: about {span(left)} to go{self._shorter(rate * self._total)}")
        return left


_pace: PacedWork | None = None  # the current work, in which a `track` may run


def span(seconds: float) -> str:
    """Return a duration in a suitable unit."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{max(1, round(seconds))} s"
