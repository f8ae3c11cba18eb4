"""Withhold what mechanisms, attacks and libraries print and raise: it may quote a private text, and reach terminals,
logs and Prefect's database. Only our own messages are shown, and of an error its type and place.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from epsilometer.core.errors import UserError, disk_trouble, text_named
from epsilometer.core.extras import missing
from epsilometer.core.file_names import SHOW
from epsilometer.runtime import progress
from epsilometer.runtime.ending import is_interrupt

WHY = f"withheld, it may quote a private text; {SHOW}=1 shows it"

_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))


def shows() -> bool:
    """Whether everything is to be shown."""
    return bool(os.environ.get(SHOW))


def withhold() -> BinaryIO | None:
    """Sends the standard output and error of this process, and of those that it starts, to a file without a name.

    `progress.say` still writes to the former standard error. Returns the file; None where SHOW is set: all is shown.
    The descriptors themselves are redirected, so that native code, threads and what runs at exit write there too.
    """
    if shows():
        return None
    progress.speak_to(os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace"))
    written = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process
    _redirect(written.fileno())
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


@contextmanager
def withheld() -> Iterator[None]:
    """Withholds for as long as a command runs what is audited. Any error is raised as a UserError of one line.

    Notes and progress are shown. What a mechanism exits with is an error too, as it is no result of the command.
    """
    try:
        if shows():
            yield
            return
        with ExitStack() as stack:
            written = stack.enter_context(tempfile.TemporaryFile())
            _aside(stack, written)
            try:
                yield
            finally:
                report(written)
    except UserError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and is_interrupt():
            raise
        raise UserError(in_one_line(error)) from None


def in_one_line(error: BaseException) -> str:
    """The line for an error: a user's own message, a missing package's or a disk's remedy, or else type and place."""
    if isinstance(error, UserError):
        return f"{error}{text_named(error)}"
    if isinstance(error, ModuleNotFoundError) and (advice := missing(error)) is not None:
        return str(advice)
    if (trouble := disk_trouble(error)) is not None:
        return f"{trouble}, then run again"
    if shows():
        return "".join(traceback.format_exception(error)).rstrip()
    place = f"{_place(error)}{text_named(error)}"
    if isinstance(error, RecursionError):
        return f"calls or values are nested without end{place}; correct the code, or what it reads"
    if isinstance(error, MemoryError):
        return f"there is not enough memory{place}; run on fewer texts or trials, or correct the code"
    return f"{kind_of(error)}{place}: message {WHY}"


def traceback_of(error: BaseException) -> str:
    """The type of an error and the files, lines and functions that it came through; not its message, notes, causes or
    members, nor the source, which may quote a text as well. Of code without a file, neither name: both may be a text.
    """
    through = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    lines = [
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if os.path.isfile(frame.filename)
        else f"  code without a file, line {frame.lineno}"
        for frame in through
    ]
    return "\n".join([*lines, kind_of(error)])


def kind_of(error: BaseException) -> str:
    """The nearest type that a module has under its name; one that was defined on the way may be named by a text."""
    for kind in type(error).__mro__:
        if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind:
            return kind.__name__
    return BaseException.__name__


def _place(error: BaseException) -> str:
    """The last line that it came through outside of libraries, as ` in FILE, line N`; empty without one."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    files = [(file, line) for file, line in frames if os.path.isfile(file)]
    own = [(file, line) for file, line in files if not _of_a_library(Path(file).resolve())]
    if not (last := (own or files)[-1:]):
        return ""
    ((file, line),) = last
    with suppress(ValueError):
        file = str(Path(file).resolve().relative_to(Path.cwd()))
    return f" in {file}, line {line}"


def _of_a_library(file: Path) -> bool:
    return not file.is_relative_to(_PACKAGE) and any(file.is_relative_to(folder) for folder in _LIBRARIES)


def _aside(stack: ExitStack, written: BinaryIO) -> None:
    """Redirects both streams until the stack is left; notes still go where they went."""
    former = [os.dup(descriptor) for descriptor in (1, 2)]
    stack.callback(_restore, former)
    stack.callback(progress.speak_to, progress.speak_to(_beyond(progress.stream(), former, stack)))
    _redirect(written.fileno())
    text = stack.enter_context(os.fdopen(os.dup(written.fileno()), "w", encoding="utf-8", errors="backslashreplace"))
    stack.enter_context(redirect_stdout(text))
    stack.enter_context(redirect_stderr(text))


def _beyond(stream: TextIO, former: list[int], stack: ExitStack) -> TextIO:
    """A stream that writes where this one did before its descriptor was redirected."""
    try:
        place = stream.fileno()
    except (OSError, ValueError):  # it has none: a test's or a notebook's
        return stream
    if place not in (1, 2):
        return stream
    return stack.enter_context(
        os.fdopen(os.dup(former[place - 1]), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    )


def _redirect(to: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for descriptor in (1, 2):
        os.dup2(to, descriptor)


def _restore(former: list[int]) -> None:
    for descriptor, place in zip((1, 2), former, strict=True):
        os.dup2(place, descriptor)
        os.close(place)
