"""A short hash of a file, to see if two audits have the same texts or rewrites."""

from __future__ import annotations

import hashlib
from pathlib import Path

DIGITS = 16  # hexadecimal digits: 64 bits, enough to avoid collisions among a project's rows


def short_hash(path: Path, more: str = "") -> str:
    """Return the hash of a file's bytes and the text `more`."""
    return hashlib.sha256(path.read_bytes() + more.encode()).hexdigest()[:DIGITS]
