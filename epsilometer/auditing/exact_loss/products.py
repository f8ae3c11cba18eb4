"""Comparison of two texts' laws: bounds of the Bayes error, delta(level) and the trade-off, and the pure loss.

The outputs y = (y_1, ..., y_n) of n independent units have the law P = prod P_i under one text and P' = prod P'_i under
the other. The loss L = ln(P / P') is the sum of the units' losses. The measure mu = sqrt(P P') is a product as well,
and where both laws are positive

    P = mu e^(L/2),    P' = mu e^(-L/2),    overlap = sum mu e^(-|L|/2),
    delta(level) = P(P' = 0) + sum mu (e^(L/2) - e^(level - L/2))_+.

All units' losses are put on one grid of step h (`grid.py`). The summands of overlap and delta are functions f of L with
f'' = f / 4, except at one kink: at 0 for the overlap, at the level for delta. An output between two grid points is
split between these points so that the means of all solutions of f'' = f / 4 are preserved. So a split changes a figure
only if the kink lies between the two points. The change is always towards the larger loss. For an output of measure mu
the change is at most mu times the jump of f' at the kink times the unit's gap (`UnitLosses.gap`). Let a be h plus the
sum over the units of the largest shift of a loss (`UnitLosses.moved`). Let gamma be the product of cosh(h / 4) over the
units, which is the largest factor by which the measure may have shrunk. By induction over the units,

    0 <= overlap - overlap_grid <= gamma sum_i gap_i mu_grid(|L| <= a)
    0 <= delta_grid - delta     <= gamma sum_i gap_i mu_grid(|L - level| <= a) e^(level/2)

These bounds are of the order n^2 h^2, whereas rounding each loss would leave an error of order n h. (Losses in the
millions need so coarse a grid that overlap <= gamma e^(a/2) overlap_grid is the better bound.)

The measure mu on the grid is convolved by FFT after an exponential tilt. The tilted measure mu e^(theta L) is a product
for any theta, and theta is chosen to move the mass to the outputs that determine the figure. So nothing underflows,
even for a tiny Bayes error. The FFT has two errors: its rounding, and the tails beyond the range of losses that it
covers (its window); Chernoff's bound limits these tails. Both errors widen the bracket.

If rho = sum mu is below e^-300, the guess loss is 300 nats or more. It may then depend on outputs that are negligible
beside a unit's likeliest outputs, so it is not computed by convolution. Instead, the bounds rho^2 / 4 <= Bayes error <=
rho / 2 (Bhattacharyya) give the guess loss to within a factor of two.

Theory: overlap of products, arXiv:2502.10527; losses by FFT, Koskela, Jalko and Honkela 2020 (arXiv:1906.03049).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from epsilometer.accounting.convolution.grid import UnitLosses
from epsilometer.accounting.convolution.spectrum import Summand, spectrum
from epsilometer.accounting.convolution.tilted import OUTSIDE, TiltedLaw, window
from epsilometer.auditing.exact_loss.bracket import Bracket

Array = NDArray[np.float64]
_WINDOW = 1 << 21  # largest number of grid points of a product; for more, the grid becomes coarser
_DOUBT = 0.999  # a mean by FFT is used only if its lower bound is at least this share of its upper bound
_PRODUCTS = 2e8  # largest number of multiplications without FFT; for more, the grid becomes coarser
_FEW = 1e5  # up to this number of multiplications, no FFT is used
_FAR = 20.0  # the law is tilted if the squared mean of L is more than this many variances
_CERTAIN = -300.0  # if ln rho is smaller, texts are distinguished almost surely, and Bhattacharyya's bounds suffice
_NOTHING = -40.0  # ln of a number x so small that 1 - x is 1 in floating point
_LARGE = 700.0  # nats: larger exponents overflow
_FAR_LEVEL = 600.0  # nats: above it, differences are computed output by output
_LOWEST = -20.0  # the lowest level in nats; only a trade-off curve needs negative levels


@dataclass(frozen=True)
class _Law(TiltedLaw):
    """The law of L under mu e^(theta L), with bounds on the error of the grid.

    In the notation of the module's docstring: gap is gamma sum_i gap_i, reach is a, and log_factor is ln of gamma
    e^(a/2).
    """

    gap: float
    reach: float
    log_factor: float

    def mean(self, values: Array) -> Bracket[float]:
        """Return a bracket of the mean of a function of the losses, given by its values [N] >= 0."""
        middle, error = float(self.shares @ values), self.error(values)
        return Bracket(max(0.0, middle - error), middle + error)

    def near(self, level: float) -> float:
        """Return an upper bound of the mean of gap e^(-theta (L - level)) over losses L within reach of the level."""
        some = slice(*np.searchsorted(self.losses, (level - self.reach, level + self.reach), side="left"))
        values = np.exp(np.minimum(-self.theta * (self.losses[some] - level), _LARGE))
        return self.gap * (float(self.shares[some] @ values) + self.error(values))


@dataclass(frozen=True)
class Product:
    """The laws of two texts, each a product of unit laws, on grids with the same step.

    Units with two equal laws may be left out.
    """

    units: Sequence[UnitLosses]

    @property
    def reversed(self) -> Product:
        """The two laws in reverse order: P' and P."""
        return Product([unit.reversed for unit in self.units])

    @property
    def pure_loss(self) -> float:
        """The largest loss of any output, exactly: the sum of the units' largest losses."""
        return sum(unit.largest[0] for unit in self.units)

    @property
    def gone(self) -> float:
        """P(P' = 0): the mass at which the loss is infinite."""
        if any(unit.gone[0] >= 1 for unit in self.units):
            return 1.0
        return -math.expm1(sum(math.log1p(-unit.gone[0]) for unit in self.units))

    @property
    def apart(self) -> bool:
        """True if no output is possible under both laws."""
        return any(not len(unit.places) for unit in self.units)

    @cached_property
    def certain(self) -> bool:
        """True if the two texts are distinguished almost surely, so Bhattacharyya's bounds are used for the error."""
        return self.apart or (bool(self.units) and self._cumulants(0.0)[0] < _CERTAIN)

    def log_error(self) -> Bracket[float]:
        """Return ln of the Bayes error of two equally likely texts: half of the overlap sum_y min(P, P')."""
        return self._log_error

    @cached_property
    def _log_error(self) -> Bracket[float]:
        if self.apart:
            return Bracket(-math.inf, -math.inf)
        if not self.units:
            return Bracket(-math.log(2), -math.log(2))
        theta, (log_rho, mean, variance) = 0.0, self._cumulants(0.0)
        if self.certain:
            return Bracket(2 * log_rho - math.log(4), log_rho + self._log_gamma - math.log(2))
        if mean**2 > _FAR * variance:
            theta = self._tilt_to(0.0, -0.5, 0.5)
        law, share = self._mean(theta, lambda law: np.exp(-theta * law.losses - np.abs(law.losses) / 2))
        low, high = (law.log_total + _log(part) for part in (share.low, share.high + law.near(0.0)))
        high = min(high, law.log_total + _log(share.high) + law.log_factor)
        return Bracket(min(low, 0.0) - math.log(2), min(high, 0.0) - math.log(2))

    def delta(self, level: float) -> Bracket[float]:
        """Return the smallest delta with P(S) <= e^level P'(S) + delta for every set S; level >= 0, in nats.

        The tilt is centred at the level, so even a tiny delta has full relative accuracy.
        """
        gone = self.gone
        if self.apart or not self.units:
            return Bracket(gone, gone)
        if near := self._near_one(np.array([level])):
            return Bracket(float(near.low[0]), 1.0)
        theta = 0.5
        if self._cumulants(theta)[1] < level < self._span[1]:
            theta = self._tilt_to(level, theta, math.inf)
        law, mean = self._mean(theta, lambda law: law.excess(level))
        log_scale = law.log_total + (0.5 - theta) * level  # its exponential may overflow a float
        low, high = (math.exp(min(log_scale + _log(x), 0.0)) for x in (mean.low - law.near(level), mean.high))
        return Bracket(min(1.0, gone + low), min(1.0, gone + high))

    def deltas(self, levels: Array) -> Bracket[Array]:
        """Return delta at each of the levels [m], from one convolution.

        In addition to the error of the grid, the absolute error is at most 1e-9.
        """
        gone = self.gone
        if self.apart or not self.units:
            return Bracket(np.full(len(levels), gone), np.full(len(levels), gone))
        if near := self._near_one(levels):
            return near
        low, high = self._excess(levels)
        return Bracket(np.minimum(gone + low, 1.0), np.minimum(gone + high, 1.0))

    def _near_one(self, levels: Array) -> Bracket[Array] | None:
        """Return delta at the levels [m] if 1 - delta <= e^(level/2) rho shows that each is about 1, otherwise None."""
        log_rest = levels / 2 + self._cumulants(0.0)[0] + self._log_gamma
        return None if log_rest.max() > _NOTHING else Bracket(1 - np.exp(log_rest), np.ones(len(levels)))

    def power(self, false_positives: Array) -> Bracket[Array]:
        """Return the largest P(S) [n] of any test S with P'(S) at most false_positives [n]: the trade-off curve.

        By Neyman and Pearson, this is the minimum of e^level P'(S) + delta(level) over all levels.
        """
        if self.apart or not self.units:
            certain = np.ones(len(false_positives)) if self.apart else false_positives
            return Bracket(certain, certain)
        step = self.units[0].step
        levels = np.arange(max(self._span[0] - step, _LOWEST), self._span[1] + step, step)
        low, high = self._excess(levels)
        slopes = np.exp(levels)
        least = [float((slopes[:-1] * f + low[1:]).min(initial=1.0)) for f in false_positives]
        most = [float((slopes * f + high).min(initial=1.0)) for f in false_positives]
        return Bracket(
            np.clip(np.add(least, self.gone), false_positives, 1.0), np.minimum(np.add(most, self.gone), 1.0)
        )

    def _excess(self, levels: Array) -> tuple[Array, Array]:
        """Return lower and upper bounds, [m] each, of sum (P - e^level P')_+ over outputs that are possible under both.

        levels: [m], at least -20.
        """
        law = self._law(0.5)
        error = law.noise * math.sqrt(len(law.shares)) + OUTSIDE
        above = _above(law.shares)
        other = _above(law.shares * np.exp(-np.maximum(law.losses, _LOWEST)))
        first = np.searchsorted(law.losses, levels)
        middle = np.maximum(above[first] - np.exp(np.minimum(levels, _LARGE)) * other[first], 0.0)
        for i in np.flatnonzero(levels > _FAR_LEVEL):  # at these levels `other` underflows
            beyond = slice(first[i], None)
            middle[i] = -law.shares[beyond] @ np.expm1(levels[i] - law.losses[beyond])
        near, beyond = np.searchsorted(law.losses, (levels - law.reach, levels + law.reach))
        missing = law.gap * math.exp(min(law.reach / 2, _LARGE)) * (above[near] - above[beyond] + error)
        scale = math.exp(law.log_total)
        return scale * np.maximum(middle - missing - error, 0.0), scale * (middle + error)

    def _mean(self, theta: float, function: Callable[[TiltedLaw], Array]) -> tuple[_Law, Bracket[float]]:
        """Return the law under a tilt, and a function's mean: by FFT if FFT is accurate enough, else directly."""
        if self._products > _FEW:
            law = self._law(theta)
            mean = law.mean(function(law))
            if mean.low >= _DOUBT * mean.high:
                return law, mean
        law = self._directly(theta)
        return law, law.mean(function(law))

    @cached_property
    def _flat(self) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
        """The concatenated losses and log-weights of all units, the first index of each unit, and each entry's unit."""
        lengths = np.array([len(unit.places) for unit in self.units])
        losses = np.concatenate([unit.places * unit.step for unit in self.units])
        log_weights = np.concatenate([unit.log_weights for unit in self.units])
        return losses, log_weights, np.append(0, np.cumsum(lengths)[:-1]), np.repeat(range(len(lengths)), lengths)

    @cached_property
    def _span(self) -> tuple[float, float]:
        """The smallest and the largest loss of the product on the grid."""
        ends = [(unit.places[0] * unit.step, unit.places[-1] * unit.step) for unit in self.units]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _weighed(self, theta: float) -> tuple[Array, Array, Array]:
        """Return the units' weights under a tilt (sum 1 per unit), ln of their unscaled totals, and mean losses."""
        losses, log_weights, starts, unit = self._flat
        tilted = log_weights + theta * losses
        peak = np.maximum.reduceat(tilted, starts)
        weights = np.exp(tilted - peak[unit])
        total = np.add.reduceat(weights, starts)
        weights /= total[unit]
        return weights, peak + np.log(total), np.add.reduceat(weights * losses, starts)

    def _cumulants(self, theta: float) -> tuple[float, float, float]:
        """Return K(theta) = ln sum mu e^(theta L), and the mean and variance of L under the tilt theta."""
        weights, log_totals, means = self._weighed(theta)
        losses, _, _, unit = self._flat
        return float(log_totals.sum()), float(means.sum()), float((weights * (losses - means[unit]) ** 2).sum())

    def _tilt_to(self, target: float, low: float, high: float) -> float:
        """Return the theta in [low, high] at which the mean of L, which grows with theta, is about the target."""
        if math.isinf(high):
            high = 2 * low
            while self._cumulants(high)[1] < target and high < 1e6:
                low, high = high, 2 * high
        for _ in range(30):
            middle = (low + high) / 2
            _, mean, variance = self._cumulants(middle)
            if (mean - target) ** 2 <= variance / 4:
                break
            low, high = (middle, high) if mean < target else (low, middle)
        return (low + high) / 2

    def _law(self, theta: float) -> _Law:
        """Return the law of L under a tilt, by FFT on a window that misses at most 2 e^-36 of the mass."""
        _, _, variance = self._cumulants(theta)
        deviation = math.sqrt(max(variance, 1e-300))
        low, high = window(lambda tilt: self._cumulants(tilt)[0], theta, deviation, self._span)
        step = self.units[0].step
        first = math.floor(low / step)
        size = math.ceil(high / step) - first + 1
        if size > _WINDOW:
            return self._coarser(2 ** math.ceil(math.log2(size / _WINDOW)))._law(theta)
        size = next_fast_len(max(size, 2), real=True)
        of_sum = spectrum([Summand(unit.places, weights) for unit, weights in self._by_unit(theta)], size)
        return self._as_law(theta, first, *of_sum.law(first, size))

    def _directly(self, theta: float) -> _Law:
        """Return the law of L under a tilt without FFT: even tiny probabilities have full relative accuracy."""
        if self._products > _PRODUCTS:
            return self._coarser(2)._directly(theta)
        shares: Array = np.ones(1)
        first = 0
        for unit, weights in self._by_unit(theta):
            inside = unit.places - unit.places[0]
            spread: Array = np.zeros(len(shares) + int(inside[-1]))
            if len(shares) == 1:
                spread[inside] = weights
            else:
                for place, weight in zip(inside, weights, strict=True):
                    spread[place : place + len(shares)] += weight * shares
            shares, first = spread, first + int(unit.places[0])
        return self._as_law(theta, first, shares, noise=0.0)

    def _by_unit(self, theta: float) -> list[tuple[UnitLosses, Array]]:
        """Return each unit with its weights under a tilt, which sum to 1."""
        weights, _, _ = self._weighed(theta)
        _, _, starts, _ = self._flat
        return list(zip(self.units, np.split(weights, starts[1:]), strict=True))

    def _as_law(self, theta: float, first: int, shares: Array, noise: float) -> _Law:
        """Return the law with these shares. first: the loss of the first share, in steps of the grid."""
        log_gamma = self._log_gamma
        reach = sum(unit.moved for unit in self.units) + self.units[0].step
        return _Law(
            theta=theta,
            log_total=self._cumulants(theta)[0],
            step=self.units[0].step,
            first=first,
            shares=shares,
            noise=noise,
            gap=math.exp(min(log_gamma, _LARGE)) * sum(unit.gap for unit in self.units),
            reach=reach,
            log_factor=log_gamma + reach / 2,
        )

    @property
    def _log_gamma(self) -> float:
        """An upper bound on ln gamma, the shrinkage of the measure.

        A unit with moved = x contributes at most ln cosh(x / 4), which is at most x^2 / 32 and at most x / 4.
        """
        return sum(min(unit.moved**2 / 32, unit.moved / 4) for unit in self.units)

    def _coarser(self, factor: int) -> Product:
        return Product([unit.coarser(factor) for unit in self.units])

    @property
    def _products(self) -> float:
        """The approximate number of multiplications of weights in a convolution without FFT."""
        low, high = self._span
        return (high - low) / self.units[0].step * sum(len(unit.places) for unit in self.units[1:])


def _above(values: Array) -> Array:
    """Return the [N + 1] suffix sums of the values [N]; the last sum is 0."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
