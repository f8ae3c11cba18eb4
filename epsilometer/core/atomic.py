"""Files written whole or not at all: text, JSON, and whatever writes to the path that it is given.

Apart from `core.tables`, so that what needs no table does not load the libraries for them.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epsilometer.core.errors import UserError


def write_json(value: Any, path: Path | str) -> None:
    """Write JSON atomically."""
    write_text(json.dumps(value, indent=1) + "\n", path)


def read_json(path: Path | str) -> Any:
    """Read a stage's JSON; a damaged file is refused by name."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; `dvc repro` makes it") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}); delete it and run `dvc repro`") from error


def write_text(text: str, path: Path | str) -> None:
    """Write a text file atomically."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def whole(path: Path | str) -> Iterator[Path]:
    """A hidden file beside `path` that is renamed to it on success, and deleted otherwise."""
    partial = unfinished(path)
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def unfinished(path: Path | str) -> Path:
    """Creates the hidden, empty file beside `path` that is written first and then renamed; its folder too.

    Its name has random digits, and it is never a file or a link that was there: in a folder that others may write,
    whoever guessed the name could have a file elsewhere overwritten. The last part but one is this process's number, by
    which the remains of killed ones are recognised.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.{os.getpid()}.partial")
    partial.touch(exist_ok=False)
    return partial
