"""The noisy latents of rewrites, which attacks and laws read, and slices of rows that fit in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Rewrites

_CELLS = 1 << 21  # most coordinates of candidates' latents in memory at a time


def latents_after(rewrites: Rewrites, columns: int) -> NDArray[np.float32]:
    """Return the latents after the noise, [n, columns]. Raises UserError if they are missing or of another shape."""
    if rewrites.latents is None:
        raise UserError(
            "the rewrites contain no latents; rewrite with the mechanism itself, which returns them", "EPS-C039"
        )
    after = rewrites.latents.after
    if after.ndim != 2 or after.shape[1] != columns or len(after) != len(rewrites.texts):
        raise UserError(
            f"the noisy latents have the shape {after.shape}, but the candidates' latents have {columns} numbers for "
            f"each of {len(rewrites.texts)} texts; rewrite again with the mechanism and the resource of the attack",
            "EPS-C040",
        )
    return after


def slices(rows: int, columns: int) -> list[slice]:
    """Return slices that split `rows` rows of `columns` numbers each into parts that fit in memory."""
    step = max(1, _CELLS // max(1, columns))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
