"""Projects of git and DVC, set up as by `epsilometer init`."""

from __future__ import annotations

import copy
import shutil
import subprocess
from contextlib import chdir
from pathlib import Path
from typing import Any

from epsilometer.pipeline import composing
from epsilometer.pipeline.composing import fragments
from epsilometer.pipeline.params import read
from epsilometer.project.site_cache import keep_private
from tests.support.places import ROOT


def git(folder: Path, *arguments: str) -> str:
    """Run git with a test identity, and return its output."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_project(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".dvc").mkdir()
    for name in ("config", ".gitignore"):
        shutil.copy(ROOT / ".dvc" / name, folder / ".dvc")
    keep_private(folder)


def plain(stage: str) -> dict[str, Any]:
    """Return a stage as DVC reads it, with all its dependencies if every study is installed."""
    own = fragments()[stage]
    return copy.deepcopy({key: value for key, value in own.items() if key not in ("when", "components")})


def compose(folder: Path) -> None:
    """Write the stages that the params.yaml in a folder needs."""
    with chdir(folder):
        composing.write(read())
