"""Run stages at the same time, each by DVC in a process of its own. Only DVC decides what is stale.

Each process is forked from this process, which has loaded DVC. The output of a stage's process appears line by line,
after the stage's name.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import TextIO

from epsilometer.core import resource_limits
from epsilometer.pipeline.ordering import Needs, in_order, missed
from epsilometer.runtime.ending import INTERRUPTED

_LAST_LINES = 10  # last lines of a failed stage that are repeated at the end
_MOST = 1 << 16  # bytes read at a time
_GRACE = 2.0  # extra seconds for a stage to end after Ctrl-C
# DVC's advice after each stage. It is not shown, because there may be no remote, and a run needs no commit per stage.
_ADVICE = ("Use `dvc push`", "To track the changes with git", "git add ", "To enable auto staging", "dvc config core.")


class _Running:
    """A stage's process, its streams, and its last lines."""

    def __init__(self, stage: str, bring_up_to_date: Callable[[str], int]) -> None:
        self.stage = stage
        self.last = deque[str](maxlen=_LAST_LINES)
        pipes = {descriptor: os.pipe() for descriptor in (1, 2)}
        self.process = ForkProcess(target=_child, args=(stage, bring_up_to_date, pipes), daemon=True)
        self.process.start()
        for _, write in pipes.values():
            os.close(write)
        self.streams = {pipes[1][0]: sys.stdout, pipes[2][0]: sys.stderr}
        self._begun = dict.fromkeys(self.streams, b"")  # incomplete lines

    def relay(self, descriptor: int) -> None:
        """Show the lines that have arrived on one of the process's streams."""
        text = os.read(descriptor, _MOST)
        *lines, self._begun[descriptor] = (self._begun[descriptor] + text).split(b"\n")
        for line in lines:
            self._show(line, self.streams[descriptor])
        if not text:
            self._close(descriptor)

    def end(self) -> None:
        """Show the remaining lines after the process has ended. Its own children may still run and hold the streams."""
        for descriptor in [*self.streams]:
            os.set_blocking(descriptor, False)
            with suppress(BlockingIOError):
                while descriptor in self.streams:
                    self.relay(descriptor)
            self._close(descriptor)
        self.process.join()

    def _close(self, descriptor: int) -> None:
        if (stream := self.streams.pop(descriptor, None)) is not None:
            self._show(self._begun[descriptor], stream)
            os.close(descriptor)

    def _show(self, line: bytes, stream: TextIO) -> None:
        text = line.decode(errors="replace").rstrip()
        if text and not text.lstrip().startswith(_ADVICE):
            self.last.append(text)
            print(text if f"'{self.stage}'" in text else f"{self.stage}: {text}", file=stream, flush=True)


class SideBySide:
    """The stages of a project, brought up to date in separate processes.

    is_stale: a function that returns True if DVC would run a stage. bring_up_to_date: runs a stage and returns the
    exit code.
    """

    def __init__(self, is_stale: Callable[[str], bool], bring_up_to_date: Callable[[str], int]) -> None:
        self._is_stale, self._bring_up_to_date = is_stale, bring_up_to_date
        self._running: list[_Running] = []
        self._unchanged: list[str] = []
        self._failed: list[_Running] = []

    def run(self, needs: Needs, at_once: int) -> int:
        """Bring stages up to date. At the end, list the failed stages, with the last lines of each.

        Returns the exit code: 0, or DVC's code of a failed stage. If this process or a stage was interrupted, raises
        KeyboardInterrupt after all stages have ended.
        """
        try:
            failed, left = in_order(needs, at_once, self._start, self._ended)
        except KeyboardInterrupt:
            self._wait_for_all()
            raise
        finally:
            for child in self._running:  # the stage ends with its process
                child.process.kill()
                child.process.join()
        for running in self._failed:
            print(f"{running.stage} failed; its last lines:", *running.last, sep="\n  ", file=sys.stderr)
        if failed:
            print(f"error: {missed(failed, left)}", file=sys.stderr)
        return self._failed[0].process.exitcode or 0 if self._failed else 0

    def _start(self, stage: str) -> None:
        """Begin a stage if DVC would run it."""
        if self._is_stale(stage):
            self._running.append(_Running(stage, self._bring_up_to_date))
        else:
            print(f"Stage '{stage}' didn't change, skipping", flush=True)
            self._unchanged.append(stage)

    def _ended(self) -> tuple[str, bool]:
        while not self._unchanged:
            if (ended := self._wait()) is not None:
                if ended.process.exitcode == INTERRUPTED:
                    raise KeyboardInterrupt
                if ended.process.exitcode:
                    self._failed.append(ended)
                return ended.stage, not ended.process.exitcode
        return self._unchanged.pop(), True

    def _wait(self, seconds: float | None = None) -> _Running | None:
        """Show the next output. Returns the process that has ended, if any."""
        keys = [key for child in self._running for key in (*child.streams, child.process.sentinel)]
        ready = {key for key in wait(keys, seconds) if isinstance(key, int)}
        for child in self._running:
            for descriptor in ready.intersection(child.streams):
                child.relay(descriptor)
        for child in self._running:
            if child.process.sentinel in ready:
                self._running.remove(child)
                child.end()
                return child
        return None

    def _wait_for_all(self) -> None:
        """Wait, for a limited time, until Ctrl-C has also ended the remaining stages."""
        until = time.monotonic() + resource_limits.EXIT_SECONDS.value + _GRACE
        while self._running and (left := until - time.monotonic()) > 0:
            self._wait(left)


def _child(stage: str, bring_up_to_date: Callable[[str], int], pipes: Mapping[int, tuple[int, int]]) -> None:
    code = INTERRUPTED
    with suppress(KeyboardInterrupt):
        for descriptor, (read, write) in pipes.items():
            os.close(read)
            os.dup2(write, descriptor)
            os.close(write)
        code = bring_up_to_date(stage)
    sys.exit(code)
