"""Names that come from users' files: columns, splits and classes of a file, and files of a folder.

If a file has no header, or is read with the wrong separator, these names are words of private texts. So only messages
on a terminal quote names; the logs of stages and flows give numbers instead.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilometer.core.errors import UserError, unknown

SHOW = "EPSILOMETER_SHOW_ERRORS"  # environment variable: allow messages that may quote a private text
_SOME = 8  # most names in a message
_shown = True


@contextmanager
def names_shown(shown: bool) -> Iterator[None]:
    """Within the context, messages quote names of users' files if `shown`, or if SHOW is set. Default: quoted."""
    global _shown
    before, _shown = _shown, shown
    try:
        yield
    finally:
        _shown = before


def _quoted() -> bool:
    return _shown or bool(os.environ.get(SHOW))


def listed(names: Collection[object], noun: str) -> str:
    """Return "columns 'a', 'b'", with at most eight names; "2 columns" if names are withheld. noun: in the singular."""
    plural = noun if len(names) == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    if not (_quoted() and names):
        return f"{len(names) or 'no'} {plural}"
    some = ", ".join(repr(str(name)) for name in list(names)[:_SOME])
    return f"{plural} {some} and {len(names) - _SOME} more" if len(names) > _SOME else f"{plural} {some}"


def member(folder: Path, file: Path, number: int) -> str:
    """Return the name of a file in a folder of texts, or its number if names are withheld.

    A name may identify the author of the text.
    """
    return str(file) if _quoted() else f"{folder}, file {number} in the order of names"


def quoted_error(error: BaseException) -> str:
    """Return the first line of a library's error for a damaged file, or the type of the error if names are withheld."""
    kind = type(error).__name__
    return f"{kind}: {str(error).partition(chr(10))[0]}" if _quoted() else kind


def absent(kind: str, name: object, names: Collection[object]) -> UserError:
    """Return the error for a name that a file does not have."""
    if _quoted():
        return unknown(kind, name, map(str, names))
    return UserError(
        f"unknown {kind} {str(name)!r}; to see the file's names, run on a terminal, or set {SHOW}=1", "EPS-C024"
    )


def no_column(source: object, kind: str, name: str, columns: Collection[str]) -> UserError:
    """Return the error for a column that a file does not have."""
    mark = next((mark for mark in ";\t|" if len(columns) == 1 and mark in "".join(columns)), None)
    hint = f"; its separator may be {mark!r} (separator, --layout separator=...)" if mark else ""
    return UserError(f"{source} has {listed(columns, 'column')}: {absent(kind, name, columns)}{hint}", "EPS-C025")
