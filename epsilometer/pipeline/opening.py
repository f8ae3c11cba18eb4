"""The DVC project around the current folder, opened with a site cache that is nobody else's and can be read."""

from __future__ import annotations

import sys
from pathlib import Path

from dvc.repo import Repo

from epsilometer.pipeline.bookkeeping import Say, remove_damaged_memory
from epsilometer.project.site_cache import keep_private


def note(text: str) -> None:
    """Say it on the standard error of this process."""
    print(f"note: {text}", file=sys.stderr, flush=True)


def opened(say: Say = note) -> Repo:
    """The project, whose lock waits for others. Raises UserError where another user can write its site cache.

    say: what is told of a site cache that was damaged, and is made again.
    """
    remove_damaged_memory(keep_private(Path(Repo.find_root())), say)
    return Repo(_wait_for_lock=True)
