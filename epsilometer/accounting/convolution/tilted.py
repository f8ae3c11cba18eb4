"""The law of a sum of losses under an exponential tilt. It gives means, deltas and epsilons with error bounds.

Rare values of the loss L = ln P/P' decide an epsilon or a delta. Under P the masses of these values could underflow. So
the law of L is computed under another measure, mu e^(theta L) with mu = sqrt(P P'). For any theta this measure, like mu
itself, factorises over the summands of L. theta is chosen so that the deciding losses have most of the mass. So nothing
underflows, however small a delta is. The Fourier transform's error is relative to the tilted law, not to 1. The excess
at a level is the delta at an epsilon equal to the level:

    sum (P - e^level P')_+ = sum over L > level of mu e^(theta L) e^(-theta L) (e^(L/2) - e^(level - L/2)).

The law is computed on an interval of losses, the window (`window`). By Chernoff's bound, at most e^-36 of the mass lies
beyond each end of the window. The transform wraps this mass around to the other end. So the mean of a function with
values of at most v is wrong by at most 2 e^-36 v, plus the transform's rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_TAIL = 36.0  # nats: the mass beyond a window is at most 2 e^-36
OUTSIDE = 2 * math.exp(-_TAIL)
_VANISHED = 100.0  # nats: excess weights below e^-100 are left out
_SCALES = (8.0, 3.0, 1.0)  # tilts that bound a window, in units of 1 / deviation


def window(
    log_moment: Callable[[float], float],
    theta: float,
    deviation: float,
    span: tuple[float, float],
    scales: Sequence[float] = _SCALES,
) -> tuple[float, float]:
    """Return a low and a high loss; at most e^-36 of the mass of mu e^(theta L) lies beyond each.

    log_moment: ln of the mass of mu e^(theta L), as a function of theta. deviation: about the standard deviation of L.
    span: the smallest and the largest possible L.
    """
    low, high = span
    total = log_moment(theta)
    for scale in scales:
        t = scale / deviation
        if t * (high - low) > 1e-9:
            high = min(high, (log_moment(theta + t) - total + _TAIL) / t)
            low = max(low, -(log_moment(theta - t) - total + _TAIL) / t)
    return low, high


@dataclass(frozen=True)
class TiltedLaw:
    """The law of L under mu e^(theta L) on a grid.

    shares:    [N], the probabilities of the losses first * step, (first + 1) * step, ...
    log_total: ln of the total mass of mu e^(theta L).
    noise:     the norm of the shares' error; 0 if they are exact.
    """

    theta: float
    log_total: float
    step: float
    first: int
    shares: Array
    noise: float

    @cached_property
    def losses(self) -> Array:
        """The losses [N], ascending."""
        return np.asarray(np.arange(self.first, self.first + len(self.shares)) * self.step, np.float64)

    def error(self, values: Array) -> float:
        """Return the largest error of the mean of a function of the loss. values: [N], the function's values, >= 0."""
        if not self.noise:
            return 0.0
        return self.noise * float(np.linalg.norm(values)) + OUTSIDE * float(values.max(initial=0.0))

    def excess(self, level: float) -> Array:
        """Return the values [N] whose mean, times e^(log_total + (0.5 - theta) level), is sum (P - e^level P')_+."""
        return weights(np.maximum(self.losses - level, 0.0), self.theta)

    @cached_property
    def _beyond(self) -> tuple[Array, Array]:
        """The distances from a grid point to higher ones, and the excess weights there, until the weights vanish."""
        count = min(len(self.shares), math.ceil(_VANISHED / ((self.theta - 0.5) * self.step)))
        distances = np.asarray(np.arange(1, count + 1) * self.step, np.float64)
        return distances, weights(distances, self.theta)

    def epsilon(self, delta: float, sign: int) -> float:
        """Return an upper (sign 1) or lower (-1) bound on the smallest level >= 0 whose excess is at most delta.

        Needs theta > 0.5. Let l be the loss at a grid point, D the excess at level l, and B = e^l P'(L > l). Between l
        and the next grid point, the excess at level l + u is D - (e^u - 1) B. So the level has a closed form.
        """
        n, tilt = len(self.shares), self.theta - 0.5
        if delta <= 0:
            return math.inf
        distances, excess = self._beyond
        error = sign * (self.noise * float(np.linalg.norm(excess)) + OUTSIDE / (1 + tilt))
        goal = math.log(delta) - self.log_total

        def over(i: int) -> float:
            """Return the excess at grid point i minus delta, both divided by e^(-tilt loss)."""
            above = self.shares[i + 1 : i + 1 + len(excess)]
            scaled = goal + tilt * (self.first + i) * self.step
            return float(above @ excess[: len(above)]) + error - math.exp(min(scaled, 700.0))

        low, high = max(0, -self.first), n  # grid points with losses >= 0
        if high <= low:
            return 0.0
        if sign < 0 and over(low) <= 0:  # far below the tilted mass, the error may exceed the excess
            low = next((i for i in np.linspace(n - 1, low, 33).astype(int).tolist() if over(i) > 0), -1)
        if low < 0 or over(low) <= 0:
            return 0.0 if sign < 0 else max(0.0, (self.first + max(low, 0)) * self.step)
        if over(high) > 0:
            return math.inf if sign > 0 else (self.first + n) * self.step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if over(middle) > 0 else (low, middle)
        above = self.shares[low + 1 : low + 1 + len(excess)]
        slope = float(above @ np.exp(-(0.5 + self.theta) * distances[: len(above)]))
        inside = min(math.log1p(over(low) / slope), self.step) if slope > 0 else self.step
        return max(0.0, (self.first + low) * self.step + inside)


def weights(beyond: Array, theta: float) -> Array:
    """Return e^((0.5 - theta) x) (1 - e^-x) for x >= 0, where x is a loss minus a lower level."""
    return np.asarray(np.exp((0.5 - theta) * beyond) * -np.expm1(-beyond), np.float64)
