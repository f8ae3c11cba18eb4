"""Checksums of all files of a model, stored in the model's folder. They tell damage from a change of model.

The checksums cover weights, configuration, tokeniser and clip bounds, since a flipped bit in any of these can change a
claim. SHA256SUMS is in the format of `sha256sum`: `sha256sum --check SHA256SUMS` gives the same result as `check`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError

NAME = "SHA256SUMS"


def check(path: Path) -> None:
    """Compare the files at or below a path with the nearest SHA256SUMS file, if there is one at the path or above it.

    Raises UserError for the first file that is missing or has different bytes.
    """
    place = path.resolve()
    folder = next((f for f in (place, *place.parents) if (f / NAME).is_file()), None)
    if folder is None:
        return
    for name, expected in _stated(folder).items():
        file = folder / name
        if file.is_relative_to(place) and (not file.is_file() or _sha256(file) != expected):
            raise UserError(
                f"{file} is missing or damaged: its bytes differ from the checksum in {NAME}; restore it (git checkout "
                f"-- {file}; for a fetched or built model, delete the folder), or, if it was changed on purpose, run "
                f"`python -m epsilometer.runtime.checksums {folder}`",
                "EPS-C077",
            )


def write(folder: Path) -> None:
    """Write the checksums of all files below a folder except documents (.md)."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != NAME and file.suffix != ".md")
    lines = [f"{_sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    write_text("".join(lines), folder / NAME)


def restate(path: Path) -> None:
    """Update the checksum of one file that was changed on purpose, in the nearest SHA256SUMS above it, if any.

    The checksums of other files are unchanged.
    """
    place = path.resolve()
    folder = next((f for f in place.parents if (f / NAME).is_file()), None)
    if folder is None:
        return
    name = place.relative_to(folder).as_posix()
    stated = _stated(folder) | {name: _sha256(place)}
    write_text("".join(f"{stated[name]}  {name}\n" for name in sorted(stated)), folder / NAME)


def _stated(folder: Path) -> dict[str, str]:
    """Return the checksums in a folder's SHA256SUMS, by file name."""
    try:
        lines = [line.split(maxsplit=1) for line in (folder / NAME).read_text(encoding="utf-8").splitlines()]
        return {name.removeprefix("*"): expected for expected, name in lines}
    except ValueError:
        raise UserError(
            f"{folder / NAME} is damaged; restore it, or delete the folder if it was built here", "EPS-C078"
        ) from None


def _sha256(path: Path) -> str:
    status = path.stat()
    return _read(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _read(path: Path, *_: int) -> str:
    """Return a file's hash, cached by path, inode, size and time, since large models are checked several times."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    import sys

    write(Path(sys.argv[1]))
