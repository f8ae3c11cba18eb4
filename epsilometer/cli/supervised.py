"""Run a command in a child process, and trust its exit code only if the child reports it through a pipe.

A mechanism runs in the process of the command. If the mechanism calls `os._exit(0)` or crashes in native code, the
process ends with an exit code that could be mistaken for a verdict, such as 0 for passed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from epsilometer.runtime.confining import confine
from epsilometer.runtime.ending import INTERRUPTED, end_in_time, heed_interrupts
from epsilometer.runtime.withholding import withhold

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def supervised(work: Callable[[], int]) -> int:
    """Return the exit code of the work, or 2 if its process reports none. A signal ends both processes."""
    answer, tell = os.pipe()
    alive, life = os.pipe()  # the kernel closes `life` when this process ends, for any reason
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until each process can handle signals
    child = os.fork()
    if not child:
        os.close(life)
        threading.Thread(target=_end_with_parent, args=(alive,), name="end-with-parent", daemon=True).start()
        heed_interrupts()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        confine()
        code = work()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the reader has gone
                stream.flush()
        withhold()  # the audited code's threads and exit handlers may still print
        os.write(tell, bytes([code]))
        end_in_time(code)
        return code
    os.close(tell)
    status = _await(child)
    os.set_blocking(answer, False)  # a process started by the work may keep the pipe open
    with suppress(BlockingIOError):
        if said := os.read(answer, 1):
            return said[0]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == INTERRUPTED:
        return INTERRUPTED
    if os.WIFSIGNALED(status) and (number := os.WTERMSIG(status)) in _PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
    print(
        f"error: the process ended ({how}) without a result: the mechanism or a library ended it or crashed, or memory "
        "ran out; run the mechanism by itself to see why",
        file=sys.stderr,
    )
    return 2


def _await(child: int) -> int:
    """Return the child's wait status. Signals are passed on to the child until it ends, and blocked afterwards."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        if not (number == signal.SIGINT and _in_foreground()):  # the terminal sends Ctrl-C to both processes
            with suppress(ProcessLookupError):
                os.kill(child, number)

    for number in _PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP stays ignored
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    _, status = os.waitpid(child, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # a later signal must not change the exit code
    return status


def _in_foreground() -> bool:
    """Return True if Ctrl-C on the terminal reaches this process."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _end_with_parent(alive: int) -> None:
    """End this process when its parent ends, for any reason."""
    os.read(alive, 1)
    os._exit(1)
