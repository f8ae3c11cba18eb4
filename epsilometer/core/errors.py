"""Errors that a user can fix, with messages that say how."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)  # control characters, and surrogates, which UTF-8 cannot encode

_SOME = 3  # most numbers in a message
_PLACE = "epsilometer_place"  # attribute of an error: the position of the text that caused it
_NAMED = re.compile(r"raised on text [\d,]+ of [\d,]+")

# Causes of disk errors and their remedies; these messages quote no text.
_DISK = {
    errno.ENOSPC: "no space is left on the disk; free some space",
    errno.EDQUOT: "the disk's quota is used up; free some space",
    errno.EFBIG: "a file exceeds the limit on file sizes (ulimit -f); raise the limit",
    errno.EROFS: "the folder to write to is on a file system that is mounted read-only; mount it writable",
    errno.EACCES: "permission to write is missing; make the folder writable (chmod u+w; chown if another user owns it)",
    errno.EPERM: "permission to write is missing; make the folder writable (chmod u+w, chattr -i)",
    errno.ENAMETOOLONG: "a path is longer than the file system allows; give a shorter path",
    errno.ELOOP: "a link points to itself; point it to a file",
    errno.EAGAIN: "the limit on processes and threads is reached (EPSILOMETER_PROCESSES, ulimit -u); raise the limit",
    errno.EIO: "the disk reports an input/output error; check the disk",
}
_NO_THREAD = "can't start new thread"  # Python's message for an error without an errno
_FULL = re.compile(f"{os.strerror(errno.ENOSPC)}|database or disk is full")  # libraries may hide the errno


class UserError(ValueError):
    """An error that the user can fix. Its message says what happened and what to do. Shown without a traceback.

    code: a code such as "EPS-C012", which never changes, so that tests and scripts need not read the message. The
    code's letter names the part of the project that first raised the error. Only errors of a user's own component may
    lack a code.
    """

    def __init__(self, message: object, code: str | None = None) -> None:
        super().__init__(printable(str(message)))
        self.code = code

    def at(self, place: object) -> UserError:
        """Return this error with a place (a setting, a file or an option) in front of its message."""
        return UserError(f"{place}: {self}", self.code)


class LawError(UserError):
    """An error for a stated output law that is invalid or contradicts the outputs. No figure relies on that law."""


def printable(text: str) -> str:
    """Return the text without terminal controls: control characters other than tabs and line breaks become U+FFFD."""
    return _OBEYED.sub("\ufffd", text)


def by_number(noun: str, numbers: Iterable[int]) -> str:
    """Return "row 3" or "rows 3, 17, 20 and 2 more", with at most three of these numbers. noun: in the singular."""
    first, more = [*numbers], 0
    if len(first) > _SOME:
        first, more = first[:_SOME], len(first) - _SOME
    shown = ", ".join(f"{number:,}" for number in first)
    return f"{noun}{'' if len(first) == 1 else 's'} {shown}" + (f" and {more:,} more" if more else "")


def raised_on(error: BaseException, place: int) -> None:
    """Record the text that caused an error. place: the text's position in the list that was being rewritten, from 0."""
    with suppress(AttributeError):  # types with slots take no attribute
        setattr(error, _PLACE, place)


def name_text(error: BaseException, numbers: Sequence[int], texts: int) -> None:
    """Add a note with the number of the text that caused an error, if `raised_on` recorded its position.

    numbers: for each text of that list, its index among all texts. texts: the count of all texts.
    """
    place = getattr(error, _PLACE, None)
    if place is not None:
        error.add_note(f"raised on text {numbers[place] + 1:,} of {texts:,}")


def text_named(error: BaseException) -> str:
    """Return the note of `name_text`: ` (raised on text 18 of 60)`, or "". Skips other notes, which may quote texts."""
    notes = getattr(error, "__notes__", ())
    return next((f" ({note})" for note in notes if _NAMED.fullmatch(note)), "")


def unknown(kind: str, name: object, names: Iterable[str]) -> UserError:
    """Return the error for an unknown name, with the nearest known name, or all known names if none is near."""
    options = sorted(names)
    near = difflib.get_close_matches(str(name), options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(options) or 'none'}"
    return UserError(f"unknown {kind} {str(name)!r}; {hint}", "EPS-C022")


def disk_trouble(error: BaseException) -> str | None:
    """Return the cause and remedy of a disk or limit error; None for any other error. Quotes no text."""
    said = str(error)
    number = errno.ENOSPC if _FULL.search(said) else errno.EAGAIN if said == _NO_THREAD else None
    return _DISK.get(number or getattr(error, "errno", None) or 0)
