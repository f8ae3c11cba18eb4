"""The git commit that an audit ran at."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_OURS = ("baseline", "sources", "reports", "dvc.lock", "runs")  # files that an audit itself writes


class Commit(NamedTuple):
    """A git commit.

    id: the full hash, empty outside of git. edited: True if a file differs from the commit; files that an audit writes
    do not count.
    """

    id: str
    edited: bool

    @property
    def short(self) -> str:
        """The hash's first 12 digits (`0444c5301f81`), with a "+" if `edited`; empty outside of git."""
        return self.id[:12] + ("+" if self.edited else "")


def commit(folder: Path) -> Commit:
    """Return the commit of a folder.

    An untracked file counts as an edit, because it may be the audited mechanism.
    """
    ours = [f":(top,exclude,glob)**/{name}{rest}" for name in _OURS for rest in ("", "/**")]
    try:
        head = _git(folder, "rev-parse", "HEAD").strip()
        status = _git(folder, "status", "--porcelain", "--", ":(top)", *ours)
    except (OSError, subprocess.CalledProcessError):
        return Commit("", False)
    return Commit(head, bool(status))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
