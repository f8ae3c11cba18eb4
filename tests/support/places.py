"""Where things are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]  # of the repository
SHARED = ROOT.parent / "shared"  # real data sets, which a clone does not have
BROKEN = Path(__file__).parent / "broken"
