"""What a stage finished before it was killed, to go on from: the only memory that a stage has beside its outputs.

The runner of stages names a folder after all that DVC compares for the entry, the hashes of its dependencies and its
settings. So a stage never says for itself what is stale: what was finished with other inputs lies in another folder.
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
    """The check of a stage that nothing guards."""


@dataclass(frozen=True)
class Parts:
    """Parts of a stage's work, a folder of files each; a part is finished when its checksums are beside its files.

    check: raises an error where an input was edited since the stage began, so that no part is of both.
    """

    folder: Path
    check: Callable[[], None] = _nothing

    def __contains__(self, name: str) -> bool:
        """Whether a part is finished. One that was damaged since is removed, and said."""
        part = self.folder / name
        if not (part / checksums.NAME).is_file():
            return False
        try:
            checksums.check(part)
        except UserError:
            note(f"{part}, finished before the stage was stopped, is damaged since; it is made anew")
            shutil.rmtree(part)
            return False
        return True

    @contextmanager
    def part(self, name: str) -> Iterator[Path]:
        """The folder of a part, which is finished when the block ends without an error; what is in it stays else."""
        part = self.folder / name
        part.mkdir(parents=True, exist_ok=True)
        yield part
        self.check()
        checksums.write(part)

    def copy(self, name: str, place: Path) -> None:
        """Copy the files of a finished part to a folder, of which nothing else stays."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder / name, place, ignore=shutil.ignore_patterns(checksums.NAME))


@contextmanager
def running(stage: str, entry: str, inputs: Callable[[], str], check: Callable[[], None] = _nothing) -> Iterator[None]:
    """Name what a stage finishes inside the block.

    inputs: returns a digest of all that DVC compares; check: as of `Parts`.
    """
    token = _UNDER_WAY.set((FOLDER / stage / entry, inputs, check))
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)


@contextmanager
def parts() -> Iterator[Parts]:
    """What this stage finished before it was stopped; deleted when the block ends without an error.

    Outside of a runner nothing says what a stage depends on, and nothing is kept.
    """
    if (under_way := _UNDER_WAY.get()) is None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            yield Parts(Path(folder))
        return
    entry, inputs, check = under_way
    yield Parts(entry / inputs(), check)
    shutil.rmtree(entry, ignore_errors=True)
    for above in (entry.parent, FOLDER):  # where nothing else is begun
        with suppress(OSError):
            above.rmdir()
