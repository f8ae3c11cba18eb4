"""Folders for private files: this user owns them, and they are not writable by every user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from epsilometer.core.errors import UserError


def own_folder(folder: Path, mode: int = 0o700) -> None:
    """Make a folder with these permissions, unless it exists.

    Raises UserError if the folder or a link to it belongs to another user, or if every user may write to the folder. An
    attacker could have made such a folder beforehand, to read or redirect its files.
    """
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    there = folder.stat()
    for owner in (folder.lstat().st_uid, there.st_uid):
        if owner != os.geteuid():
            raise UserError(
                f"{folder} belongs to another user, number {owner}; name a folder that does not exist yet", "EPS-C055"
            )
    if there.st_mode & stat.S_IWOTH:
        raise UserError(
            f"{folder} can be written by every user (mode {there.st_mode & 0o777:04o}); remove that permission (chmod "
            "o-w), or name a folder that does not exist yet",
            "EPS-C056",
        )
