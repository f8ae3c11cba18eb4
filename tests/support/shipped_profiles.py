"""Profiles of the project, parsed once."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from epsilometer.core import yaml_text
from tests.support.places import ROOT


@cache
def _parsed(name: str) -> dict[str, Any]:
    return yaml_text.load((ROOT / "profiles" / f"{name}.yaml").read_text())


def shipped(name: str) -> dict[str, Any]:
    """Return the settings of a profile. Each call gets fresh values, so changing them is safe."""
    return copy.deepcopy(_parsed(name))
