"""The exact epsilon of Gaussian noise of a given scale: the inverse of `gaussian_scale`, for tests."""

from __future__ import annotations

import math

from scipy.optimize import brentq

from epsilometer.mechanisms.latents.shared.noise import gaussian_log_delta


def gaussian_epsilon(scale: float, delta: float) -> float:
    """Return the smallest epsilon of the noise at this delta. scale: sigma divided by the sensitivity."""

    def excess(epsilon: float) -> float:
        return max(gaussian_log_delta(epsilon, scale), -1e6) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12))
