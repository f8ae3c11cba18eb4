"""What several tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tests may share the cores
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may reach for the network
sys.path.insert(0, str(Path(__file__).parent))

# Examples are the same in every run; a first import must not count as a slow example.
settings.register_profile("epsilometer", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("epsilometer")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data sets beside the project; tests that use them skip where they are absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the real data sets in ../shared, which a clone does not have")
    return folder
