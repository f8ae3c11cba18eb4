"""DVC's site cache (of hashes and links) in a folder of the project that no other user can enter.

DVC's default is a folder under /var/tmp to which every user of the machine may write. DVC deletes files that the cache
lists, and unpickles its contents, so any user who can write to the cache can run code as you. `.dvc/config` names a
folder of the project by a relative path. But DVC resolves this path from the current folder, and makes missing folders
writable by everybody. So `.dvc/config.local` names the same folder by its full path.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError

NAME = ".dvc-site"  # the same name as in .dvc/config
VARIABLE = "DVC_SITE_CACHE_DIR"  # environment variable that overrides both configuration files
_NAMED = re.compile(r"^\s*site_cache_dir\s*=\s*(.*?)\s*$", re.MULTILINE)


def keep_private(project: Path) -> Path:
    """Make DVC keep its site cache in a folder of the project, with mode 0700, unless the user names another folder.

    Returns the folder that DVC uses. Raises UserError if the folder does not belong to you, to root or to the project's
    owner, or if users who cannot write to the project can write to the folder.
    """
    _close_locks(project)
    own = project.resolve() / NAME
    local = project / ".dvc/config.local"
    match = _NAMED.search(local.read_text(encoding="utf-8", errors="replace")) if local.is_file() else None
    named = Path(match[1].strip("\"'")) if match else None
    if named is None or (named.name == NAME and named != own):  # the project was moved
        command = [sys.executable, "-m", "dvc", "config", "--local", "core.site_cache_dir", str(own)]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
        if done.returncode:
            raise UserError(
                f"{local}, which names DVC's site cache, cannot be written: {done.stderr.strip()}; make it writable",
                "EPS-P067",
            )
        named = own
    folder = Path(os.environ.get(VARIABLE) or named)
    folders = [folder, folder / "repo"]  # DVC makes both writable by everybody
    for place in folders:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder == own and not (ignored := own / "repo/.gitignore").exists():  # a project that predates this folder
        write_text("*\n", ignored)
    for place in (*folders, *folders[1].iterdir()):
        _check(place, project)
    for place in folders:
        if folder == own and place.stat().st_uid == os.geteuid():
            place.chmod(0o700)
    return folder


def _close_locks(project: Path) -> None:
    """Close the folder of DVC's locks to other users, who could otherwise lock a file and stop every run."""
    folder = project / ".dvc/tmp"
    with suppress(OSError):  # .dvc is missing or not writable: DVC reports either
        folder.mkdir(mode=0o700, exist_ok=True)
    if folder.exists() and folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)


def _check(folder: Path, project: Path) -> None:
    """Raise UserError if a user who cannot write to the project can write to this folder."""
    there, around = folder.stat(), project.stat()
    remedy = f"delete it (DVC makes it again), or name a folder of yours in {VARIABLE}"
    if there.st_uid not in (os.geteuid(), 0, around.st_uid):
        raise UserError(
            f"{folder} in DVC's site cache belongs to another user, number {there.st_uid}; {remedy}", "EPS-P068"
        )
    trusted = around.st_mode if there.st_gid == around.st_gid else around.st_mode & ~stat.S_IWGRP
    if there.st_mode & (stat.S_IWGRP | stat.S_IWOTH) & ~trusted:
        raise UserError(
            f"{folder} in DVC's site cache can be written by other users (mode {there.st_mode & 0o777:04o}), who "
            f"could run code as you through it; {remedy}",
            "EPS-P069",
        )


if __name__ == "__main__":  # `make` runs this at set-up, so that `dvc` run by hand is safe, too
    keep_private(Path())
