"""End this process in time, even if audited code leaves threads or processes running, or handles Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

import psutil

from epsilometer.core import resource_limits
from epsilometer.runtime.progress import say

INTERRUPTED = 130  # the exit code after Ctrl-C


_sent = threading.Event()  # set by Ctrl-C after `heed_interrupts`


def was_interrupted() -> bool:
    """Return True if Ctrl-C reached this process after `heed_interrupts` was called."""
    return _sent.is_set()


def is_interrupt() -> bool:
    """Return True if a KeyboardInterrupt comes from the user, and not from audited code that raised it."""
    return was_interrupted() or signal.getsignal(signal.SIGINT) is signal.default_int_handler


def end_in_time(code: int) -> None:
    """Return at once, but end the process with this exit code within `resource_limits.EXIT_SECONDS`.

    The process ends even if a thread still runs. Call this function when all work is done and written.
    """
    seconds = resource_limits.EXIT_SECONDS.value

    def wait() -> None:
        time.sleep(seconds)
        _end(code, "note: the audited code left a thread or process running, which was ended")

    threading.Thread(target=wait, name="end in time", daemon=True).start()


def heed_interrupts() -> None:
    """Make Ctrl-C end this process even if audited code ignores it.

    The process ends within `resource_limits.EXIT_SECONDS`, or at once on a second Ctrl-C. The function does nothing if
    the signal is already ignored, or if it has a handler other than Python's own.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    arrived, arrives = os.pipe()
    os.set_blocking(arrives, False)
    signal.set_wakeup_fd(arrives, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # Ctrl-C in a child must not end this process
    threading.Thread(target=_end_after_interrupt, args=(arrived,), name="heed interrupts", daemon=True).start()

    def interrupted(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, lambda *_: None)
        _sent.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def _end_after_interrupt(arrived: int) -> None:
    """End the process after Ctrl-C. Runs in a thread, since signal handlers wait while the main thread is in C code."""
    sent = bytes([signal.SIGINT])
    while os.read(arrived, 1) != sent:  # other signals write to the pipe too
        pass
    late = time.monotonic() + resource_limits.EXIT_SECONDS.value
    while (left := late - time.monotonic()) > 0 and select.select([arrived], [], [], left)[0]:
        if os.read(arrived, 1) == sent:
            break
    _end(INTERRUPTED, "the audited code did not stop on Ctrl-C and was ended")


def _end(code: int, said: str) -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    with suppress(OSError, ValueError):  # nothing reads the output any more
        say(said)
        sys.stdout.flush()
    os._exit(code)
