"""Distribution of the Euclidean length of a vector of independent Laplace numbers, by quadrature.

The length is sqrt(sum_i (s_i E_i)^2) with E_i ~ Exp(1) and scales s_i. Coordinates are added one at a time. Let
f_before be the density of the length before a coordinate of scale s is added. In polar coordinates with angle t, the
new density at rho is

    f(rho) = rho int_0^(pi/2) f_before(rho cos t) e^(-rho sin t / s) / s dt.

The integral is computed by the double-exponential rule in t, on an even grid of ln rho. All terms are positive, so both
tails are accurate relative to their size for any number of coordinates. Inverting a characteristic function would lose
the upper tail, which determines the probabilities of distant words.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp, ndtri_exp

from epsilometer.core.errors import UserError

_STEP = 0.02  # distance of grid points in ln rho
_BELOW = 10.0  # the grid starts at the length of the vector of scales times e^-_BELOW
_LONGEST = 750.0  # end of the grid in units of the largest scale; longer vectors have a probability below e^-650
_LEAST = 1e-9  # scales below this share of the largest count as 0, since they add 1e-18 to a squared length
_ANGLES, _ANGLE_STEP = 3.3, 0.04  # range and step of the double-exponential rule
_NEIGHBOURS = np.arange(-2, 4)  # relative indices of the six grid points used for interpolation


class LaplaceNorm:
    """The distribution of the length of a vector of Laplace numbers.

    scales: [d], the scale of each number. Raises UserError if all are 0.
    """

    def __init__(self, scales: NDArray[np.float64]) -> None:
        if not np.any(scales):
            raise UserError(
                "all word vectors are equal, so their noise has no scale; give vectors that differ", "EPS-M086"
            )
        used = np.sort(scales)[::-1]
        self.scales = used[used > _LEAST * used[0]]

    @cached_property
    def _grid(self) -> NDArray[np.float64]:
        """The grid: evenly spaced values of ln rho."""
        return np.arange(np.log(np.linalg.norm(self.scales)) - _BELOW, np.log(_LONGEST * self.scales[0]), _STEP)

    @cached_property
    def _tails(self) -> tuple[CubicSpline, CubicSpline]:
        """ln P(length <= rho) and ln P(length > rho), as splines of ln rho on the grid."""
        grid, rule = self._grid, _Rule.of(_ANGLE_STEP)
        rho = np.exp(grid)
        log_density = -rho / self.scales[0] - np.log(self.scales[0])
        for number, scale in enumerate(self.scales[1:].tolist()):
            terms = rule.shifted(log_density, slope=number) + rule.log_weights - rule.sines * (rho / scale)
            log_density = grid - np.log(scale) + logsumexp(terms, axis=0)
        smooth = CubicSpline(grid, log_density + grid)  # the density of ln rho
        place, weight = np.polynomial.legendre.leggauss(4)
        inside = smooth(grid[:-1, None] + _STEP * (place + 1) / 2) + np.log(_STEP / 2 * weight)
        cells = logsumexp(inside, axis=1)
        below = smooth(grid[0]) - np.log(len(self.scales))  # below the grid the density is a power of rho
        beyond = smooth(grid[-1]) - np.log(-smooth(grid[-1], 1))
        lower = np.logaddexp.accumulate(np.append(below, cells))
        upper = np.logaddexp.accumulate(np.append(beyond, cells[::-1]))[::-1]
        total = np.logaddexp(lower[-1], beyond)
        return CubicSpline(grid, lower - total), CubicSpline(grid, upper - total)

    def log_cdf(self, rho: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln P(length <= rho), elementwise."""
        with np.errstate(divide="ignore"):
            place = np.log(rho)
        start = self._grid[0]
        inside = self._tails[0](np.clip(place, start, self._grid[-1]))
        return np.minimum(inside + len(self.scales) * np.minimum(place - start, 0), 0.0)

    def log_sf(self, rho: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln P(length > rho), elementwise. Values of rho are clipped to the grid."""
        with np.errstate(divide="ignore"):
            place = np.log(rho)
        return np.minimum(self._tails[1](np.clip(place, self._grid[0], self._grid[-1])), 0.0)

    def at(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return approximate quantiles of the length at these normal scores: ascending, distinct, within the grid."""
        lower, upper = (tail(self._grid) for tail in self._tails)
        least = np.finfo(float).smallest_normal
        score = np.where(lower < upper, ndtri_exp(np.minimum(lower, -least)), -ndtri_exp(np.minimum(upper, -least)))
        return np.unique(np.exp(np.interp(scores, score, self._grid)))

    def masses(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities [n + 1] of the bins of lengths between ascending edges [n]."""
        lower = np.exp(np.append(self.log_cdf(edges), 0.0))
        upper = np.exp(np.append(0.0, self.log_sf(edges)))
        from_below = np.diff(lower, prepend=0.0)
        from_above = -np.diff(upper, append=0.0)
        masses = np.where(lower < 0.5, from_below, from_above)
        return masses / masses.sum()


class _Rule(NamedTuple):
    """The double-exponential rule for an angle t from 0 to pi / 2, with n nodes.

    sines:       [n, 1], sin t.
    log_weights: [n, 1], logarithms of the rule's weights.
    whole:       [n], ln cos t in grid steps, rounded down.
    parts:       [n, 6], interpolation weights of the grid points around ln cos t.
    """

    sines: NDArray[np.float64]
    log_weights: NDArray[np.float64]
    whole: NDArray[np.int64]
    parts: NDArray[np.float64]

    @classmethod
    def of(cls, step: float) -> _Rule:
        """Return the rule with this step."""
        t = np.arange(-_ANGLES, _ANGLES + step / 2, step)
        inner = np.pi / 2 * np.sinh(t)
        angle, complement = (np.pi / 2 / (1 + np.exp(sign * 2 * inner)) for sign in (-1, 1))
        weights = step * np.pi**2 / 8 * np.cosh(t) / np.cosh(inner) ** 2
        moved = np.log(np.sin(complement)) / _STEP
        whole = np.floor(moved).astype(np.int64)
        parts = np.ones((len(t), len(_NEIGHBOURS)))
        for i, here in enumerate(_NEIGHBOURS.tolist()):
            for other in _NEIGHBOURS.tolist():
                if other != here:
                    parts[:, i] *= (moved - whole - other) / (here - other)
        return cls(np.sin(angle)[:, None], np.log(weights)[:, None], whole, parts)

    def shifted(self, values: NDArray[np.float64], slope: int) -> NDArray[np.float64]:
        """Return a function shifted along the grid by ln cos t, for each node: [n, points].

        values: the function on the grid, [points]. Below the grid it is extrapolated, with `slope` per unit of ln rho.
        """
        more = int(-self.whole.min()) + len(_NEIGHBOURS)
        before = values[0] - slope * _STEP * np.arange(more, 0, -1)
        after = values[-1] + (values[-1] - values[-2]) * np.arange(1, len(_NEIGHBOURS))
        windows = sliding_window_view(np.concatenate([before, values, after]), len(values))
        out = np.zeros((len(self.whole), len(values)))
        for part, neighbour in zip(self.parts.T, _NEIGHBOURS.tolist(), strict=True):
            out += part[:, None] * windows[more + self.whole + neighbour]
        return out
