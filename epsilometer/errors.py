"""What a user did wrong, said so that it can be put right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters, and what no encoding has


class UserError(ValueError):
    """An error the user can mend: names the value, the rule and the remedy. Shown without a traceback."""

    def __init__(self, message: object) -> None:
        super().__init__(printable(str(message)))


def printable(text: str) -> str:
    """A text that a terminal shows and does not obey: control characters but tabs and line breaks become U+FFFD."""
    return _OBEYED.sub("\ufffd", text)


def unknown(kind: str, name: object, known: Iterable[str]) -> UserError:
    """The error for a name that is not among the known ones, with the nearest of them."""
    options = sorted(known)
    near = difflib.get_close_matches(str(name), options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(options) or 'none'}"
    return UserError(f"unknown {kind} {str(name)!r}; {hint}")
