"""Paths that tests use."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]  # the repository
SHARED = ROOT.parent / "shared"  # real data sets; a clone does not have them
BROKEN = Path(__file__).parent / "broken"
