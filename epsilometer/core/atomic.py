"""Atomic writing of files: text, JSON, and any bytes that a caller writes to an open file.

This module is separate from `core.tables`, so that code without tables loads no table libraries.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from epsilometer.core.errors import UserError


def write_json(value: Any, path: Path | str) -> None:
    """Write JSON atomically."""
    write_text(json.dumps(value, indent=1) + "\n", path)


def read_json(path: Path | str) -> Any:
    """Read a stage's JSON file. Raises UserError, which names the file, if it is missing or damaged."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise absent(path) from None
    except ValueError as error:
        raise damaged(path, error) from error


def absent(path: Path | str) -> UserError:
    """Return the error for a missing stage file."""
    return UserError(f"{path} does not exist; run `dvc repro` in its project's folder to make it", "EPS-C001")


def damaged(path: Path | str, error: Exception) -> UserError:
    """Return the error for an unreadable stage file."""
    return UserError(
        f"{path} cannot be read ({type(error).__name__}); delete it, then run `dvc repro` in its "
        "project's folder to make it again",
        "EPS-C002",
    )


def write_text(text: str, path: Path | str, *, private: bool = False) -> None:
    """Write a text file atomically. private: True to make it readable by its owner alone."""
    with whole(path, private=private) as file:
        file.write(text.encode())


@contextmanager
def whole(path: Path | str, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a new file for writing. On success it is renamed to `path`, otherwise deleted. Missing folders are made.

    The new file replaces a file or a link at `path`, never a link's target, and belongs to the current user. Its mode
    is 0600 if `private`. A file that replaces another gives group and other users no new permission. A pipe or a device
    (`is_stream`) is written directly.

    During writing, the file has a hidden temporary name in the same folder. The name has random digits, and must not
    exist yet. Otherwise, in a folder that others may write to, an attacker who guessed the name could redirect the
    writes to another file. For the same reason the file is never reopened by name. The name also contains this
    process's number, so that the remains of killed processes can be recognised. Raises UserError if somebody else
    replaced the file meanwhile.
    """
    path = Path(path)
    if is_stream(path):
        with path.open("wb") as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.{os.getpid()}.partial")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(partial, flags, _mode(path, private))
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            _check(partial, file)
            os.replace(partial, path)
            _check(path, file)  # between two calls, another file may take the name
    finally:
        partial.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Return True for a pipe or a character device, if it and any link to it belong to this user or to root."""
    try:
        named, there = path.lstat(), path.stat()
    except OSError:
        return False
    kind = stat.S_IFMT(there.st_mode)
    return kind in (stat.S_IFIFO, stat.S_IFCHR) and {named.st_uid, there.st_uid} <= {0, os.geteuid()}


def _mode(path: Path, private: bool) -> int:
    mode = 0o600 if private else 0o666
    try:
        there = path.lstat().st_mode
    except OSError:
        return mode
    return mode & (there | 0o600) if stat.S_ISREG(there) else mode


def _check(path: Path, file: BinaryIO) -> None:
    """Raise UserError if the path no longer leads to this open file."""
    if not (os.path.lexists(path) and os.path.samestat(path.lstat(), os.fstat(file.fileno()))):
        raise UserError(
            f"{path} was replaced while it was written; write to a folder in which nobody else may rename files",
            "EPS-C003",
        )
