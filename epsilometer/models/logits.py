"""Make a model's logits fit for a law or a score: finite, and on a grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

GRID = 1024  # logits are multiples of 1/GRID


def on_grid(logits: Tensor, model: Path) -> Tensor:
    """The logits in float32, rounded to multiples of 1/GRID.

    So small differences between kernels hardly ever reach a drawn token. model: the folder that they come from.
    Raises UserError for a logit that is not finite, which allows no law.
    """
    import torch

    rounded = logits.float().mul(GRID).round_().div_(GRID)
    if not torch.isfinite(rounded).all():
        raise UserError(
            f"the model in {model} gives logits that are not finite; check its weights, and use precision: float32"
        )
    return rounded
