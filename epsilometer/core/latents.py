"""Latents of rewrites as attacks and laws read them: those after the noise, and rows in parts that fit in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Rewrites

_CELLS = 1 << 21  # numbers of candidates' latents in memory at a time


def latents_after(rewrites: Rewrites, columns: int) -> NDArray[np.float32]:
    """The latents after the noise. Raises UserError where there are none, or they are of another length."""
    if rewrites.latents is None:
        raise UserError("these rewrites hold no latents; rewrite with the mechanism itself, which keeps them")
    after = rewrites.latents.after
    if after.ndim != 2 or after.shape[1] != columns or len(after) != len(rewrites.texts):
        raise UserError(
            f"the latents after the noise have the shape {after.shape}, those of the candidates {columns} numbers for "
            f"each of {len(rewrites.texts)} texts; rewrite again with the mechanism and the resource of the attack"
        )
    return after


def slices(rows: int, columns: int) -> list[slice]:
    """Rows of so many numbers each, in parts that fit in memory."""
    step = max(1, _CELLS // max(1, columns))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
