"""A name for all that rewrites depend on, so that a run goes on with what another has kept only if it is its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from epsilometer.core.component import PACKAGE
from epsilometer.core.imports import reached


def fingerprint(settings: Any, texts: Iterable[str], code: Path, data: Iterable[Path]) -> str:
    """A hash of the settings, the texts, the code of the mechanism and of this package, and the data that is read.

    settings: anything that JSON can hold; code: the mechanism's file, by content as the package's; data: files and
    folders, by path, size and time of change. Of Python files, attacks among the data, all that they import counts too.
    """
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=8)
    for text in texts:
        digest.update(f"{len(text)} {text}".encode())
    files = sorted(file for path in data for file in (path, *path.rglob("*")) if file.is_file())
    own = {one for file in (code, *files) if file.suffix == ".py" for one in reached(file)[0]}
    for file in sorted({*PACKAGE.rglob("*.py"), *own}):
        digest.update(file.read_bytes())
    for file in files:
        found = file.stat()
        digest.update(f"{file} {found.st_size} {found.st_mtime_ns}".encode())
    return digest.hexdigest()
