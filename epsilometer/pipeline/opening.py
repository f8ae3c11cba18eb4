"""The DVC project around the current folder, opened with a private, readable site cache.

First checks all files that DVC reads in the project, also those of other runs in it: DVC expands whatever their aliases
refer to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml
from dvc.repo import Repo

from epsilometer.core.errors import UserError
from epsilometer.core.yaml_text import check_aliases
from epsilometer.pipeline.bookkeeping import Say, remove_damaged_memory
from epsilometer.project.site_cache import keep_private
from epsilometer.runtime.waiting import waiting_for

_READ = (".dvc", "dvc.yaml", "dvc.lock", "params.yaml")  # endings of their names


def note(text: str) -> None:
    """Print a note on the standard error of this process."""
    print(f"note: {text}", file=sys.stderr, flush=True)


def opened(say: Say = note) -> Repo:
    """The project, whose lock waits for others. Raises UserError if another user can write its site cache, and for YAML
    whose aliases expand to too much.

    say: prints a note on a damaged site cache, which is made again.
    """
    project = Path(Repo.find_root())
    _check_yaml(project)
    remove_damaged_memory(keep_private(project), say)
    return Repo(_wait_for_lock=True)


@contextmanager
def locked(repo: Repo, say: Say = note) -> Iterator[None]:
    """DVC's lock of the project, held for the block; a message names the process that it waits for."""
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
