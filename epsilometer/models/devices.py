"""The device that networks run on (`core/device.py`).

Results on different devices differ in the last bits. So the code record (`project/code.py`) of a stage that imports
this module includes the device. Another device makes the stage's results stale.
"""

from __future__ import annotations

from importlib.metadata import version

from epsilometer.core.device import chosen
from epsilometer.core.errors import UserError


def resolved(device: str | None = None) -> str:
    """Return "cpu" or "cuda". device: None for the chosen device; "auto" for "cuda" if available, else "cpu".

    Raises UserError for another name, and for "cuda" if torch cannot use it.
    """
    device = device or chosen()
    if device not in ("cpu", "cuda", "auto"):
        raise UserError(f"device must be one of cpu, cuda, auto, got {device!r}", "EPS-N023")
    if device == "cpu":
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "auto":
        return "cpu"
    why = "is built without CUDA" if torch.version.cuda is None else "finds no GPU that its CUDA version supports"
    raise UserError(
        f"device 'cuda' is not available: torch {version('torch')} {why}; set device: cpu or auto, or install a CUDA "
        "build of torch and a driver for it",
        "EPS-N024",
    )


def described() -> dict[str, str]:
    """Return a description of the chosen device for a code record: the kind; for a GPU also its name and capability."""
    kind = resolved()
    if kind == "cpu":
        return {"kind": kind}
    import torch

    properties = torch.cuda.get_device_properties(0)
    return {"kind": kind, "name": properties.name, "capability": f"{properties.major}.{properties.minor}"}
