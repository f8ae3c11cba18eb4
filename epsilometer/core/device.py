"""The device on which the networks of a process and its workers compute.

A project sets `device` in params.yaml. Outside a project, the environment variable EPSILOMETER_DEVICE sets the device.
`models/devices.py` applies it.
"""

from __future__ import annotations

import os
from typing import Literal

Device = Literal["cpu", "cuda", "auto"]
_VARIABLE = "EPSILOMETER_DEVICE"


def choose(device: Device) -> None:
    """Set the device that this process and its workers compute on."""
    os.environ[_VARIABLE] = device


def chosen() -> str:
    """Return the device that `choose` or the environment set; "cpu" by default."""
    return os.environ.get(_VARIABLE, "cpu")
