"""Watch the sources of a baseline's losses (code, packages, pins, data), and start a re-audit when one changes.

Each check (`Watch.look`) compares the sources with the records that the last re-audit wrote (`sources/*.json`). A newer
version on the hub or at the package index is reported once, and not used.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from epsilometer.core.errors import UserError
from epsilometer.pipeline.measured import sources as current
from epsilometer.pipeline.params import read
from epsilometer.reaudit import baseline, sources
from epsilometer.reaudit.sources import Record, Source
from epsilometer.runtime.waiting import holder

LOCK = Path("data/watch.lock")
_ASK = 86_400.0  # seconds between questions to the hub and the package index
_INDEX = 30.0  # seconds for the index to answer
_WAITS = "the sources cannot be compared, so no re-audit starts"
_BACK = 2.0  # the clock may be set back by this many seconds without a message

Start = Callable[[Sequence[str]], None]
"""A function that starts a re-audit for these changes, and may wait for its end. It raises UserError on failure."""


class Watch:
    """The watch of the project in the current folder. say: prints a line; start: starts a re-audit."""

    def __init__(self, say: Callable[[str], None], start: Start) -> None:
        self._say, self._start = say, start
        self._started: list[str] = []
        self._said: set[str] = set()
        self._clock = time.time()

    def look(self) -> bool:
        """Compare the sources with their records once. Returns True if a re-audit was started.

        A source that cannot be read, such as a missing or incomplete file, is reported once, and the next look tries
        again.
        """
        self._note_clock()
        try:
            recorded = sources.read() or baseline.read().about["sources"]
            now = current(read())
            _check_there(recorded, sources.records(now))
        except (UserError, OSError) as error:
            self._once(f"{_WAITS}: {error}")
            return False
        self._said = {line for line in self._said if not line.startswith(_WAITS)}
        changed = sources.changes(recorded, sources.records(now))
        if changed == self._started:
            return False
        self._started = []
        if not changed:
            return False
        self._say("\n".join(["changed since the last re-audit:", *(f"  {line}" for line in changed)]))
        try:
            self._start(changed)
        except UserError as error:
            self._once(f"the re-audit did not start, and the next check tries again: {error}")
            return False
        self._started = changed
        return True

    def ask(self) -> None:
        """Report each newer version on the hub and at the package index once. Runs in another thread than `look`."""
        try:
            now = current(read())
        except (UserError, OSError):
            return  # reported by `look`
        served, unknown = sources.served(now, {})
        newer, unanswered = newer_packages(now)
        for line in [*sources.newer(served), *newer]:
            self._once(f"not used: {line}")
        if silent := [*unknown, *unanswered]:
            self._say(f"no answer from {', '.join(silent)}; the next request is in a day")

    def _note_clock(self) -> None:
        before, self._clock = self._clock, time.time()
        if self._clock < before - _BACK:
            self._say(
                f"the clock was set back by {before - self._clock:.0f} s; checks continue at the same pace, and "
                "every audit is dated after the one before"
            )

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)


def _check_there(before: Mapping[str, Record], now: Mapping[str, Record]) -> None:
    """Raise UserError for a source that has lost all its files."""
    gone = [name for name, record in now.items() if before.get(name, {}).get("files") and not record.get("files")]
    if gone:
        files = ", ".join(file for name in gone for file in before[name]["files"])
        raise UserError(f"{files} is gone ({', '.join(gone)}); restore it, or remove it from params.yaml", "EPS-P074")


def newer_packages(now: Sequence[Source], latest: Callable[[str], str] | None = None) -> tuple[list[str], list[str]]:
    """Return sentences on packages whose newest version is not in use, and packages for which the index had no answer.

    latest: a function that returns the newest version of a package; the default asks pip's index.
    """
    packages = {name: version for source in now for name, version in source.record.get("packages", {}).items()}
    newer, unknown = [], []
    for name, version in sorted(packages.items()):
        try:
            newest = (latest or latest_version)(name)
        except (OSError, subprocess.SubprocessError, UserError) as error:
            unknown.append(f"package {name} ({type(error).__name__})")
            continue
        if newest != version.partition("+")[0]:  # torch 2.13.0+cpu is 2.13.0 at the index
            newer.append(
                f"package {name}: the index has {newest}, but {version} is installed; install the new one to audit "
                "with it"
            )
    return newer, unknown


def latest_version(package: str) -> str:
    """Return the newest version of a package at pip's index. Raises UserError if the index has none."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INDEX)
    first = done.stdout.partition("\n")[0]
    if done.returncode or not first.startswith(f"{package} ("):
        raise UserError(f"the index has no version of {package}; check pip's settings", "EPS-P075")
    return first[len(package) + 2 : -1]


@contextmanager
def alone() -> Iterator[None]:
    """Lock the watch of the current folder. Raises UserError without a baseline, or if another process has the lock."""
    baseline.read()
    LOCK.parent.mkdir(mode=0o700, exist_ok=True)
    with LOCK.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = holder(LOCK) or "another process"
            raise UserError(
                f"{who} watches this folder already; end that watch first, or leave it running", "EPS-P076"
            ) from None
        yield


def watch(say: Callable[[str], None], start: Start, every: float) -> None:
    """Look every `every` seconds, until interrupted. Raises UserError at once for a folder without a baseline."""
    with alone():
        say(f"watching {len(baseline.read().about['sources'])} sources, every {every:g} s; Ctrl-C ends it")
        looks = Watch(say, start)
        threading.Thread(target=_repeat, args=(looks.ask, _ASK), name="ask-for-newer", daemon=True).start()
        _repeat(looks.look, every)


def _repeat(do: Callable[[], object], every: float) -> None:
    pause = threading.Event()
    while True:
        do()
        pause.wait(every)  # independent of the system's clock
