"""Open the DVC project around the current folder, with a private and undamaged site cache.

Before it opens the project, this module checks all YAML files that DVC reads there, including files of other runs. It
refuses aliases that expand to too much data; DVC itself would expand all aliases.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml
from dvc.repo import Repo

from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.core.yaml_text import check_aliases
from epsilometer.pipeline.bookkeeping import Say
from epsilometer.project.site_cache import keep_private
from epsilometer.runtime.waiting import waiting_for

_READ = (".dvc", "dvc.yaml", "dvc.lock", "params.yaml")  # endings of names of files that DVC reads


_WITHOUT_GIT = Path(__file__).with_name("without_git")  # DVC's settings for a dvc.yaml that git ignores


def allow_ignored(folder: Path) -> None:
    """Turn off DVC's use of git, in this process and its children, if git ignores the dvc.yaml of a folder.

    Otherwise DVC would refuse such a folder, for example the run of a profile. With git turned off, DVC also ignores
    settings in the machine's `/etc`.
    """
    if shutil.which("git") is None:
        return
    ignored = subprocess.run(["git", "check-ignore", "-q", str(folder / "dvc.yaml")], capture_output=True)
    if ignored.returncode == 0:
        os.environ.setdefault("DVC_SYSTEM_CONFIG_DIR", str(_WITHOUT_GIT))


def note(text: str) -> None:
    """Print a note on the standard error of this process."""
    print(f"note: {text}", file=sys.stderr, flush=True)


def opened(say: Say = note) -> Repo:
    """Open the project and return it, with a lock that waits for other processes.

    say: is called with a note on a damaged site cache, which is rebuilt. Raises UserError if another user can write to
    the site cache, if the disk refuses a new site cache, and for YAML whose aliases expand to too much data.
    """
    project = Path(Repo.find_root())
    _check_yaml(project)
    site_cache = keep_private(project)
    with suppress(sqlite3.DatabaseError):
        return Repo(_wait_for_lock=True)
    for memory in (site_cache / "repo").glob("*/"):
        say(f"{memory}, DVC's cache of file hashes, is damaged; it is deleted, and all files are read again")
        shutil.rmtree(memory)
    try:
        return Repo(_wait_for_lock=True)
    except sqlite3.OperationalError as error:
        if disk_trouble(error):
            raise  # its cause is known, and shown with its remedy
        raise UserError(
            f"{site_cache}: SQLite cannot write DVC's cache of file hashes ({error}); check the free space of the "
            "disk, its quota, and the limit on file sizes (ulimit -f), then run again",
            "EPS-P081",
        ) from error


def without_memory(repo: Repo, say: Say) -> Repo:
    """Delete DVC's cache of file hashes, and return the reopened project, so that DVC reads every file again.

    DVC would trust the cache for a file with the same inode, size and time. Call this only while no other DVC process
    uses the project.
    """
    repo.close()
    shutil.rmtree(repo.site_cache_dir)
    return opened(say)


@contextmanager
def locked(repo: Repo, say: Say = note) -> Iterator[None]:
    """Hold DVC's lock of the project for a block. If another process has the lock, a message names that process."""
    with waiting_for(Path(str(repo.tmp_dir), "lock"), say):
        repo.lock.lock()
    try:
        yield
    finally:
        repo.lock.unlock()


def _check_yaml(project: Path) -> None:
    for folder, folders, names in os.walk(project):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in (Path(folder, name) for name in names if name.endswith(_READ)):
            try:
                with suppress(yaml.YAMLError):  # DVC reports the fault and its place
                    check_aliases(file.read_bytes())
            except UserError as error:
                raise error.at(os.path.relpath(file)) from None
