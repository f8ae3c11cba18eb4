"""Rounding of logits to a grid, so that small differences between kernels rarely change results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

GRID = 1024  # logits are multiples of 1/GRID


def on_grid(logits: Tensor, model: Path) -> Tensor:
    """Return the logits in float32, rounded to multiples of 1/GRID.

    model: the model's folder, for the error. Raises UserError for infinite or NaN logits, which define no distribution.
    """
    import torch

    rounded = logits.float().mul(GRID).round_().div_(GRID)
    if not torch.isfinite(rounded).all():
        raise UserError(
            f"the model in {model} returns logits that are not finite; check its weights, and use precision: float32",
            "EPS-N054",
        )
    return rounded


def probabilities_on_grid(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the softmax of logits [n, c] rounded to multiples of 1/GRID."""
    rounded = np.round(logits.astype(np.float64) * GRID) / GRID
    powers = np.exp(rounded - rounded.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
