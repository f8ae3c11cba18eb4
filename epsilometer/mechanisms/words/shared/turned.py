"""Samples of the von Mises-Fisher distribution, from a fixed number of uniforms per sample.

A sample about the unit vector mu in d dimensions, with concentration kappa, is y = W mu + sqrt(1 - W^2) q, where q is a
uniform direction orthogonal to mu. The cosine W is sampled by rejection (Wood 1994, "Simulation of the von Mises Fisher
distribution"), in a form without cancellation. With m = d - 1, s = sqrt(4 kappa^2 + m^2), x = 2 kappa / (m + s), and T
the cosine of a uniform direction,

    W = (x + T) / (1 + x T)    is accepted with probability e^(m (z + ln(1 - z))),    z = x T / (1 + x T).

Each sample has its own uniforms for 64 attempts, so it does not depend on other samples. At most 45 % of attempts fail,
as a test shows, so all 64 fail with probability below 1e-20. The last attempt is then used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ATTEMPTS = 64


def uniforms_of_a_draw(dimension: int) -> int:
    """Return the number of uniforms per sample in this dimension."""
    return dimension + 2 * ATTEMPTS


def turned_about(means: Array, concentrations: Array, uniforms: Array) -> Array:
    """Return a sample [n, d] about each unit vector [n, d] with its concentration [n].

    uniforms: [n, `uniforms_of_a_draw`], in the open unit interval.
    """
    from scipy.special import ndtri  # slow to load; only sampling needs it

    dimension = means.shape[1]
    cosine, sine, _ = cosines(concentrations, dimension, uniforms[:, dimension:])
    across: Array = ndtri(uniforms[:, :dimension])
    for _ in range(2):  # the second pass removes the rounding error of the first
        across -= np.einsum("ij,ij->i", across, means)[:, None] * means
    across *= (sine / np.linalg.norm(across, axis=1))[:, None]
    return np.asarray(across + cosine[:, None] * means, np.float64)


def cosines(concentrations: Array, dimension: int, uniforms: Array) -> tuple[Array, Array, NDArray[np.int64]]:
    """Sample the cosines W [n]; return them, the sines sqrt(1 - W^2) [n], and the numbers of attempts [n]."""
    from scipy.special import betaincinv

    m = dimension - 1
    s = np.hypot(2 * concentrations, m)
    x, rest = 2 * concentrations / (m + s), (m + m * (m / (s + 2 * concentrations))) / (m + s)  # rest: 1 - x
    cosine, sine = np.empty(len(x)), np.empty(len(x))
    attempts, left = np.zeros(len(x), np.int64), np.arange(len(x))
    for attempt in range(ATTEMPTS):
        tried, decides = uniforms[left, 2 * attempt], uniforms[left, 2 * attempt + 1]
        away, toward = 2 * betaincinv(m / 2, m / 2, tried), 2 * betaincinv(m / 2, m / 2, 1 - tried)  # 1 + T, 1 - T
        bottom = rest[left] + x[left] * away  # 1 + x T
        t = np.where(away < 1, away - 1, 1 - toward)
        z = x[left] * t / bottom
        cosine[left] = (x[left] + t) / bottom
        sine[left] = np.sqrt(rest[left] * (1 + x[left]) * away * toward) / bottom
        attempts[left] += 1
        left = left[np.log(decides) > m * (z + np.log1p(-z))]
        if not len(left):
            break
    return cosine, sine, attempts
