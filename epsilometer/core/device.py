"""The choice of the device that networks compute on, of a process and the workers that it starts.

params.yaml makes it for a project (`device`), the environment variable EPSILOMETER_DEVICE elsewhere.
`models/devices.py` reads it.
"""

from __future__ import annotations

import os
from typing import Literal

Device = Literal["cpu", "cuda", "auto"]
_VARIABLE = "EPSILOMETER_DEVICE"


def choose(device: Device) -> None:
    """Have this process and its workers compute on a device."""
    os.environ[_VARIABLE] = device


def chosen() -> str:
    """Returns what was chosen, or what the environment says; "cpu" otherwise."""
    return os.environ.get(_VARIABLE, "cpu")
