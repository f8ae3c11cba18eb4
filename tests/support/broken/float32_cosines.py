"""Broken: Wood's sampler as commonly written, in float32, with b as a difference and W as a quotient.

With d = 3,072 and kappa 1e7, b cancels to 0 and no draw is ever accepted. With d = 592,130 the deviation is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 10  # rounds of proposals before the sampler gives up


def cosines(kappa: float, dimension: int, count: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Return the accepted cosines, at most [count]."""
    unit, m, k = np.float32(1), np.float32(dimension - 1), np.float32(kappa)
    with np.errstate(all="ignore"):
        b = (np.sqrt(4 * k * k + m * m) - 2 * k) / m
        x = (unit - b) / (unit + b)
        c = k * x + m * np.log(unit - x * x)
        accepted = np.empty(0, np.float32)
        for _ in range(_ROUNDS):
            z = generator.beta((dimension - 1) / 2, (dimension - 1) / 2, count).astype(np.float32)
            w = (unit - (unit + b) * z) / (unit - (unit - b) * z)
            good = k * w + m * np.log(unit - x * w) - c >= np.log(generator.random(count, np.float32))
            accepted = np.concatenate([accepted, w[good]])
            if len(accepted) >= count:
                break
    return accepted[:count]
