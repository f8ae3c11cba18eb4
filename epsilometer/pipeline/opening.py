"""The DVC project around the current folder, opened with a site cache that is nobody else's."""

from __future__ import annotations

from pathlib import Path

from dvc.repo import Repo

from epsilometer.project.site_cache import keep_private


def opened() -> Repo:
    """The project, whose lock waits for others. Raises UserError where another user can write its site cache."""
    keep_private(Path(Repo.find_root()))
    return Repo(_wait_for_lock=True)
