"""Weights that are tracked by git have their checksums beside them, so that a damaged file is not taken for a new one.

SHA256SUMS is in the format of `sha256sum`: `sha256sum --check SHA256SUMS` says the same as `check`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from epsilometer.errors import UserError

NAME = "SHA256SUMS"


def check(path: Path) -> None:
    """Compare the files at or below a path with the SHA256SUMS of the nearest folder that has one, if any has.

    Raises UserError naming the first file that is missing or has other bytes.
    """
    place = path.resolve()
    folder = next((f for f in (place, *place.parents) if (f / NAME).is_file()), None)
    if folder is None:
        return
    for line in (folder / NAME).read_text().splitlines():
        expected, name = line.split(maxsplit=1)
        file = folder / name.removeprefix("*")
        if not file.is_relative_to(place):
            continue
        if not file.is_file() or _sha256(file) != expected:
            raise UserError(
                f"{file} is missing or damaged: its bytes are not those that {NAME} states; bring it back (git "
                f"checkout -- {file}), or, if it was made anew on purpose, `python -m epsilometer.checksums {folder}`"
            )


def write(folder: Path) -> None:
    """State the checksums of all safetensors files below a folder."""
    files = sorted(folder.rglob("*.safetensors"))
    lines = [f"{_sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    (folder / NAME).write_text("".join(lines))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    import sys

    write(Path(sys.argv[1]))
