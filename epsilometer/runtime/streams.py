"""The streams for results and for notes. They stay visible while standard output and error are withheld."""

from __future__ import annotations

import sys
from typing import TextIO

_results: TextIO | None = None
_notes: TextIO | None = None


def results() -> TextIO:
    """Return the stream for results."""
    return _results or sys.stdout


def notes() -> TextIO:
    """Return the stream for notes, progress and errors."""
    return _notes or sys.stderr


def use(results: TextIO | None = None, notes: TextIO | None = None) -> None:
    """Replace the two streams. None means standard output for results, and standard error for notes."""
    global _results, _notes
    _results, _notes = results, notes
