"""Checks of a path before it is read: invalid names, pipes, devices, sockets and circular links are refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from epsilometer.core.errors import UserError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_SHOWN = 40  # characters of a long path in a message


def check_name(path: str | Path, called: str = "a path") -> None:
    """Raise UserError for an invalid path name. called: the noun for the path in messages."""
    text = os.fspath(path)
    if not text:
        raise UserError(f"{called} is empty; name a file (an unset shell variable is an empty word)", "EPS-C057")
    if "\0" in text:
        raise UserError(f"{called} contains a NUL, which file names cannot; remove it", "EPS-C058")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{called} is not valid UTF-8: {text!r}; rename the file", "EPS-C059") from None


def check_readable(path: str | Path, called: str = "a path") -> None:
    """Raise UserError if the path leads to anything but a file or folder. A missing file passes."""
    check_name(path, called)
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            text = os.fspath(path)
            raise UserError(
                f"{called} has {len(text):,} characters ({text[:_SHOWN]!r}...), more than the file system allows; give "
                "a shorter path",
                "EPS-C060",
            ) from None
        if error.errno == errno.ELOOP:
            raise UserError(f"{path} is a link that points to itself; point it to a file", "EPS-C061") from None
        return
    if kind in _KINDS:
        raise UserError(
            f"{path} is {_KINDS[kind]}, which may never end; copy its content to a file, and name that file", "EPS-C062"
        )
