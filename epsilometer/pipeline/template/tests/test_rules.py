"""Check each of your mechanisms and attacks against the rules that audits rely on; a failure shows the remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
OWN = [(kind, path) for kind in ("mechanism", "attack") for path in sorted((PROJECT / f"{kind}s").glob("[!_]*.py"))]


@pytest.mark.parametrize(("kind", "path"), OWN, ids=[path.stem for _, path in OWN])
def test_it_keeps_the_rules(kind: str, path: Path) -> None:
    command = [sys.executable, "-m", "epsilometer.cli", "check", kind, str(path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
