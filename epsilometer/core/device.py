"""The device that the networks of a process and its workers compute on.

A project sets it in params.yaml (`device`), other uses in the environment variable EPSILOMETER_DEVICE.
`models/devices.py` reads it.
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
    """Return the chosen device, or that of the environment; "cpu" otherwise."""
    return os.environ.get(_VARIABLE, "cpu")
