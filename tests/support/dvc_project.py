"""A folder made a project of git and DVC, as `epsilometer init` makes one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from epsilometer.project.site_cache import keep_private
from tests.support.places import ROOT


def make_project(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".dvc").mkdir()
    for name in ("config", ".gitignore"):
        shutil.copy(ROOT / ".dvc" / name, folder / ".dvc")
    keep_private(folder)
