"""The finished parts of a killed stage, which the resumed stage reuses.

A stage has no state other than these parts and its outputs. The runner of stages names the folder of parts by a digest
of everything that DVC compares for a stage's entry: the hashes of its dependencies, and its settings. Other inputs give
another folder, so a stage never decides what is stale.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from epsilometer.core.errors import UserError
from epsilometer.runtime import checksums
from epsilometer.runtime.progress import note

FOLDER = Path("data/begun")
_UNDER_WAY: ContextVar[tuple[Path, Callable[[], str], Callable[[], None]] | None] = ContextVar("run", default=None)


def _nothing() -> None:
    """Do nothing; the default check of `Parts`."""


@dataclass(frozen=True)
class Parts:
    """Parts of a stage's work, each a folder of files. A part is finished if its folder has checksums.

    check: raises an error if an input was edited since the stage began, so that no part mixes two versions.
    """

    folder: Path
    check: Callable[[], None] = _nothing

    def __contains__(self, name: str) -> bool:
        """Return True if a part is finished. A finished part that is damaged now is removed, with a note."""
        part = self.folder / name
        if not (part / checksums.NAME).is_file():
            return False
        try:
            checksums.check(part)
        except UserError:
            note(f"{part}, finished before the stage was stopped, is damaged and is made again")
            shutil.rmtree(part)
            return False
        return True

    @contextmanager
    def part(self, name: str) -> Iterator[Path]:
        """Yield a part's folder. The part is finished if the block ends without an error. An error deletes no files."""
        part = self.folder / name
        part.mkdir(parents=True, exist_ok=True)
        yield part
        self.check()
        checksums.write(part)

    def copy(self, name: str, place: Path) -> None:
        """Copy the files of a finished part to a folder, replacing everything in it."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder / name, place, ignore=shutil.ignore_patterns(checksums.NAME))


@contextmanager
def running(stage: str, entry: str, inputs: Callable[[], str], check: Callable[[], None] = _nothing) -> Iterator[None]:
    """Store the parts that a stage finishes inside the block.

    inputs: a function that returns a digest of everything that DVC compares. check: as in `Parts`.
    """
    token = _UNDER_WAY.set((FOLDER / stage / entry, inputs, check))
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)


@contextmanager
def parts() -> Iterator[Parts]:
    """Yield the parts that this stage has finished. They are deleted if the block ends without an error.

    Outside of `running` the dependencies of a stage are unknown, so its parts are never reused.
    """
    if (under_way := _UNDER_WAY.get()) is None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            yield Parts(Path(folder))
        return
    entry, inputs, check = under_way
    yield Parts(entry / inputs(), check)
    shutil.rmtree(entry, ignore_errors=True)
    for above in (entry.parent, FOLDER):  # not removed if another stage has parts there
        with suppress(OSError):
            above.rmdir()
