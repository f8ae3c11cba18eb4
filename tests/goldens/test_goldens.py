"""No commit changes a frozen result unseen, and a difference is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.goldens.sections import first_difference
from tests.goldens.values import compact
from tests.support.places import ROOT


@pytest.mark.slow
def test_results_are_the_frozen_ones(tmp_path: Path) -> None:
    """From another folder than the repository's, and with strings that hash otherwise."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.goldens"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_difference_is_named() -> None:
    frozen = {"a": {"b": 1, "c": [1, 2]}, "d": 3}
    assert first_difference(frozen, {"a": {"b": 1, "c": [1, 2]}, "d": 3}) is None
    assert "a > c" in str(first_difference(frozen, {"a": {"b": 1, "c": [1, 3]}, "d": 4}))
    assert "absent" in str(first_difference(frozen, {"a": {"b": 1, "c": [1, 2]}}))
    assert "e" in str(first_difference(frozen, frozen | {"e": 1}))


def test_the_last_bit_of_a_number_in_a_long_list_counts() -> None:
    numbers = [0.1 * i for i in range(200)]
    assert compact(numbers) == compact([*numbers])
    assert compact(numbers) != compact([*numbers[:-1], numbers[-1] + 1e-14])
    assert compact([{"x": 0.0}]) != compact([{"x": -0.0}])
