"""Withhold output and messages of mechanisms, attacks and libraries, since they may quote a private text.

Terminals, logs and Prefect's database get only epsilometer's own messages, and the type and place of an error.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from epsilometer.core.errors import UserError, disk_trouble, text_named
from epsilometer.core.extras import missing
from epsilometer.core.file_names import SHOW
from epsilometer.runtime import progress, streams
from epsilometer.runtime.ending import is_interrupt

WHY = f"withheld, since it may quote a private text; {SHOW}=1 shows it"

_KEY = secrets.token_bytes(32)
_SHOWN = 100  # characters

_undo = ExitStack()  # undoes `withhold`
_file: BinaryIO | None = None  # holds the withheld output
_reported = 0  # number of bytes of `_file` that were already reported

_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))


def shows() -> bool:
    """Return True if SHOW is set, so that everything is shown."""
    return bool(os.environ.get(SHOW))


def withhold() -> bool:
    """Redirect descriptors 1 and 2 of this process and its children to a nameless file, until `restore`.

    `streams.results` and `streams.notes` still write to the original targets. All other output goes to the file, even
    the output of native code, threads and exit handlers. If the descriptors are already redirected, or if SHOW is set,
    the function changes nothing and returns False.
    """
    global _file
    if _file is not None or shows():
        return False
    former = [os.dup(descriptor) for descriptor in (1, 2)]
    for descriptor in former:
        _undo.callback(os.close, descriptor)
    _undo.callback(_point, former)
    streams.use(*(_beyond(stream, former) for stream in (sys.stdout, sys.stderr)))
    _undo.callback(streams.use)
    _file = _undo.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - open until `restore`
    _point([_file.fileno()] * 2)
    if streams.results() is sys.stdout or streams.notes() is sys.stderr:  # a test's or a notebook's stream
        text = _undo.enter_context(os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace"))
        _undo.enter_context(redirect_stdout(text))
        _undo.enter_context(redirect_stderr(text))
    return True


def report() -> None:
    """Print how many bytes were withheld since the last report, if any."""
    global _reported
    if _file is None:
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    total = os.fstat(_file.fileno()).st_size
    size, _reported = total - _reported, total
    if size:
        progress.say(
            f"note: {size:,} bytes of other output are withheld, since they may quote a private text; {SHOW}=1 shows "
            "them"
        )


def restore() -> None:
    """Undo `withhold`. Call this function if the process continues with other work."""
    global _file, _reported
    _file, _reported = None, 0
    _undo.close()


@contextmanager
def withheld() -> Iterator[None]:
    """Run audited code: its output is withheld, and any error is raised as a UserError of one line.

    Notes and progress are shown. An exit by audited code counts as an error, because its exit code must not become the
    command's exit code. After the block, output is shown again, unless it was withheld before the block.
    """
    begun = withhold()
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and is_interrupt():
            raise
        raise UserError(in_one_line(error), "EPS-C116") from None
    finally:
        if begun:
            report()
            restore()


def fingerprint(value: str) -> str:
    """Return a hash to show in place of a value from another machine; the value itself if SHOW is set.

    Within a run, equal values have equal hashes, and different values almost always have different ones. The hash has a
    random key that never leaves this process. Without a key, somebody could compare the hash of an echoed text with the
    hashes of a few candidates.
    """
    if shows():
        return repr(value[:_SHOWN])
    return "#" + hashlib.blake2b(value.encode(errors="surrogatepass"), key=_KEY, digest_size=4).hexdigest()


def in_one_line(error: BaseException) -> str:
    """Return one line on an error: a UserError's message, a remedy (for packages and disks), or the type and place.

    If SHOW is set, an error without a message or remedy of our own gives the whole traceback instead.
    """
    if isinstance(error, UserError):
        return f"{error}{text_named(error)}" + (f" [{error.code}]" if error.code else "")
    if isinstance(error, ModuleNotFoundError) and (advice := missing(error)) is not None:
        return str(advice)
    if (trouble := disk_trouble(error)) is not None:
        return f"{trouble}, then run again"
    if shows():
        return "".join(traceback.format_exception(error)).rstrip()
    place = f"{_place(error)}{text_named(error)}"
    if isinstance(error, RecursionError):
        return f"calls or values are nested without end{place}; correct the code, or its input"
    if isinstance(error, MemoryError):
        return f"memory ran out{place}; run on fewer texts or trials, or correct the code"
    return f"{kind_of(error)}{place}: message {WHY}"


def traceback_of(error: BaseException) -> str:
    """Return the type of an error and the files, lines and functions that it passed through.

    Message, notes, causes, grouped errors and source lines are left out, since they may quote a text. For code without
    a file, only the line number is listed, since function names in such code may be texts.
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
    """Return the name of the nearest base class that a module defines. A run-time type's name may be a text."""
    for kind in type(error).__mro__:
        if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind:
            return kind.__name__
    return BaseException.__name__


def _place(error: BaseException) -> str:
    """Return the last line outside of libraries that an error passed through: ` in FILE, line N`, or empty."""
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


def _beyond(stream: TextIO, former: Sequence[int]) -> TextIO:
    """Return a stream that writes where this stream wrote before the descriptors were redirected."""
    try:
        place = stream.fileno()
    except (OSError, ValueError):  # a test's or a notebook's stream has no descriptor
        return stream
    if place not in (1, 2):
        return stream
    saved = os.dup(former[place - 1])
    return _undo.enter_context(os.fdopen(saved, "w", encoding=stream.encoding, errors="backslashreplace", buffering=1))


def _point(places: Sequence[int]) -> None:
    """Redirect descriptors 1 and 2 to the two descriptors `places`."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for descriptor, place in zip((1, 2), places, strict=True):
        os.dup2(place, descriptor)
