"""Withhold what mechanisms, attacks and libraries print: it may quote a private text, and a stage's output reaches
terminals, logs and Prefect's database. Only the stage's own messages are shown.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from typing import BinaryIO

from epsilometer.runtime import progress

SHOW = "EPSILOMETER_SHOW_ERRORS"


def withhold() -> BinaryIO | None:
    """Sends the standard output and error of this process, and of those that it starts, to a file without a name.

    `progress.say` still writes to the former standard error. Returns the file; None where SHOW is set: all is shown.
    The descriptors themselves are redirected, so that native code, threads and what runs at exit write there too.
    """
    if os.environ.get(SHOW):
        return None
    progress.speak_to(os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace"))
    written = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for descriptor in (1, 2):
        os.dup2(written.fileno(), descriptor)
    return written


def report(written: BinaryIO | None) -> None:
    """Says how much was withheld, if anything."""
    if written is None:
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if size := os.fstat(written.fileno()).st_size:
        progress.say(
            f"note: {size:,} bytes of other output withheld, they may quote a private text; {SHOW}=1 shows them"
        )


def traceback_of(error: BaseException) -> str:
    """The type of an error and the lines of code that it came through; not its message, notes, causes or members."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
