"""Run a program on lines of input, within limits on time and output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from epsilometer.core import resource_limits
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note

_PAUSE = 0.02  # seconds between checks
_HELD = 5.0  # most seconds after a program's end for which its children may keep the output open
_SAID = 1 << 16  # number of bytes that are kept from the end of standard error


@dataclass(frozen=True)
class Output:
    """A program's standard output, the end of its standard error, and its exit status."""

    written: bytes
    said: bytes
    status: int


def run(arguments: Sequence[str], lines: Sequence[str], name: str) -> Output:
    """Run a program that should write one line for each line of input. name: the program's name in messages.

    The program and its children are one process group, and all of them have ended when this call returns. Raises
    OSError if the program cannot be started. Raises UserError if the program takes longer than
    `resource_limits.COMMAND_SECONDS`, if it writes more lines than it gets, and if it writes more bytes than
    `resource_limits.COMMAND_BYTES`.
    """
    seconds, largest = resource_limits.COMMAND_SECONDS.value, resource_limits.COMMAND_BYTES.value
    process = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    _Feeder(process.stdin, "".join(f"{line}\n" for line in lines).encode()).start()
    out, errors = _Reader(process.stdout, largest, len(lines)), _Reader(process.stderr)
    for reader in (out, errors):
        reader.start()
    try:
        _await(process, out, errors, seconds)
        if out.too_much:
            raise UserError(
                f"{name} writes more than {len(lines)} lines for {len(lines)} lines of input; write exactly one line "
                "per input line, an empty one for an empty rewrite"
                if out.lines > len(lines)
                else f"{name} writes more than {largest} bytes; {resource_limits.COMMAND_BYTES.remedy}",
                "EPS-C103",
            )
        if process.poll() is None:
            raise UserError(
                f"{name} did not end within {seconds} s; let it end when its standard input ends, or, "
                f"{resource_limits.COMMAND_SECONDS.remedy}",
                "EPS-C104",
            )
        if out.is_alive():
            note(f"{name} left a process running that held its output open; the process was ended")
    finally:
        if process.poll() is None or out.is_alive() or errors.is_alive():
            _end(process)
    for reader in (out, errors):
        reader.join(_PAUSE)
    return Output(bytes(out.content), bytes(errors.content), process.returncode)


class _Feeder(threading.Thread):
    def __init__(self, pipe: IO[bytes], content: bytes) -> None:
        super().__init__(name="feed program", daemon=True)
        self._pipe, self._content = pipe, content

    def run(self) -> None:
        with suppress(OSError), self._pipe:  # the program may end without reading all input
            self._pipe.write(self._content)


class _Reader(threading.Thread):
    """Thread that reads a pipe. It stops beyond the byte or line limit. Without limits it keeps the last bytes."""

    def __init__(self, pipe: IO[bytes], largest: int | None = None, most: int = 0) -> None:
        super().__init__(name="read program", daemon=True)
        self._pipe, self._largest, self._most = pipe, largest, most
        self.content, self.lines, self.too_much = bytearray(), 0, False

    def run(self) -> None:
        with self._pipe:
            while not self.too_much and (piece := os.read(self._pipe.fileno(), 1 << 16)):
                self.content += piece
                if self._largest is None:
                    del self.content[:-_SAID]
                    continue
                self.lines += piece.count(b"\n")
                self.too_much = self.lines > self._most or len(self.content) > self._largest


def _await(process: subprocess.Popen[bytes], out: _Reader, errors: _Reader, seconds: float) -> None:
    """Wait until the program and its output have ended, or until a limit is exceeded."""
    late, ended = time.monotonic() + seconds, None
    while not out.too_much and time.monotonic() < late:
        if ended is None and process.poll() is not None:
            ended = time.monotonic()
        if ended is not None and (time.monotonic() > ended + _HELD or not (out.is_alive() or errors.is_alive())):
            return
        (out if out.is_alive() else errors).join(_PAUSE)
        if not (out.is_alive() or errors.is_alive()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PAUSE)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and its children."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
