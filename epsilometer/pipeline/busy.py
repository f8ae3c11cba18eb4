"""DVC's list of busy files, written when a stage runs and not when it is merely looked at.

DVC notes in a file which paths a stage reads and writes, four times a stage with as many removals, also where nothing
is to be run: a tenth of the time of an audit in which nothing has changed. It does so while it holds the project's
lock, which it releases only for as long as a stage's command runs; until then, a note is for nobody. `deferred` writes
the notes down at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dvc import rwlock
from dvc.lock import Lock


@contextmanager
def deferred() -> Iterator[None]:
    """Have DVC write its list of busy files down only when it releases the project's lock, for as long as this lasts.

    Where the list has entries, of another process or of a stage that has just run, DVC goes its own way.
    """
    note, unlock = rwlock.rwlock, Lock.unlock
    pending: list[tuple[ExitStack, tuple[Any, ...]]] = []

    @contextmanager
    def noted(tmp_dir: str, fs: Any, cmd: str, read: list[str], write: list[str], hardlink: bool) -> Iterator[None]:
        place = tmp_dir, fs, cmd, read, write, hardlink
        with ExitStack() as entered:
            if hardlink or _has_entries(Path(tmp_dir, rwlock.RWLOCK_FILE)):
                entered.enter_context(note(*place))
                yield
                return
            one = entered, place
            pending.append(one)
            try:
                yield
            finally:
                if one in pending:
                    pending.remove(one)

    def released(self: Lock) -> None:
        waiting, pending[:] = pending[:], []  # first, as writing takes and releases a lock of its own
        for entered, place in waiting:
            entered.enter_context(note(*place))
        unlock(self)

    rwlock.rwlock, Lock.unlock = noted, released
    try:
        yield
    finally:
        rwlock.rwlock, Lock.unlock = note, unlock


def _has_entries(file: Path) -> bool:
    return file.is_file() and b'"pid"' in file.read_bytes()
