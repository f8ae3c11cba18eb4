"""Two products of laws: Bayes error, delta(level), trade-off and pure loss, deterministic up to a stated rounding.

Outputs y = (y_1, ..., y_n) of n independent units have the laws P = prod P_i and P' = prod P'_i; L = ln P / P' is the
sum of the units' losses. The measure mu = sqrt(P P') is a product as well, and

    P = mu e^(L/2),    P' = mu e^(-L/2)    where both are positive; elsewhere L is infinite.

Each unit's losses are rounded to the nearest point of a grid of step h, so that n of them move L by at most n h / 2.
With mu as it is, rounding multiplies P and P' by a factor within e^(-s) and e^s, s = n h / 4, at every output: overlap,
delta and trade-off lie between what the rounded pair gives with either factor. The rounded mu is convolved by FFT after
an exponential tilt: mu e^(theta L) is a product for any theta, and is centred where its figure is decided, so that
nothing underflows, however small an error is. What an FFT adds (its rounding, and the tails beyond its window by
Chernoff's bound) widens the bracket.

Theory: overlap of products, arXiv:2502.10527; losses by FFT, Koskela, Jalko and Honkela 2020 (arXiv:1906.03049). This
file knows no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from epsilometer.auditing.exact_loss.bracket import Bracket

Array = NDArray[np.float64]
_TAIL = 36.0  # nats: what lies beyond a window weighs at most 2 e^-36
_DENSE = 1 << 20  # points of a unit's grid up to which they are counted, not sorted
_WINDOW = 1 << 21  # points of a product's grid; beyond that it becomes coarser
_DOUBT = 0.999  # of its upper value, the least lower value of a mean that an FFT may give
_PRODUCTS = 2e8  # of weights that a convolution without FFT may take; beyond that its grid becomes coarser
_FEW = 1e5  # products up to which there is no FFT
_FAR = 20.0  # a mean that is so many squared deviations / 2 from where a figure is decided wants a tilt


@dataclass(frozen=True)
class UnitLosses:
    """The losses of one unit's outputs on a grid, ascending, weighed by sqrt(P P').

    step:         of the grid, in nats; slack: by how much any loss may have been moved.
    places:       int64 [m], losses in steps; log_weights: [m].
    gone:         P(P' = 0) and P'(P = 0).
    largest:      the largest loss of an output, from P to P' and from P' to P.
    """

    step: float
    slack: float
    places: NDArray[np.int64]
    log_weights: Array
    gone: tuple[float, float]
    largest: tuple[float, float]

    @property
    def bytes(self) -> int:
        """What the arrays take in memory."""
        return self.places.nbytes + self.log_weights.nbytes


def unit_losses(first: Array, second: Array, step: float) -> UnitLosses:
    """The losses between two laws [outputs], given by natural logarithms."""
    gone = (0.0, 0.0)
    total = first + second
    if (common := np.isfinite(total)).all():
        loss = first - second
    else:
        gone = (_mass(first[np.isneginf(second)]), _mass(second[np.isneginf(first)]))
        loss, total = first[common] - second[common], total[common]
    if not len(loss):
        return UnitLosses(step, 0.0, np.empty(0, np.int64), np.empty(0), gone=gone, largest=(math.inf, math.inf))
    largest = (math.inf if gone[0] else float(loss.max()), math.inf if gone[1] else -float(loss.min()))
    rounded = np.rint(loss / step)
    slack = float(np.abs(loss - rounded * step).max())
    return _gathered(rounded.astype(np.int64), total / 2, step, slack, gone=gone, largest=largest)


def loss_range(first: Array, second: Array) -> float:
    """The largest finite |L| between two laws [outputs]; 0 where no output is possible under both."""
    with np.errstate(invalid="ignore"):
        loss = np.abs(first - second)
    return float(loss[np.isfinite(loss)].max(initial=0.0))


def _mass(log_law: Array) -> float:
    return float(np.exp(log_law).sum())


def _gathered(
    places: NDArray[np.int64],
    log_weights: Array,
    step: float,
    slack: float,
    *,
    gone: tuple[float, float],
    largest: tuple[float, float],
) -> UnitLosses:
    """Weights of one place added up."""
    low, peak = int(places.min()), float(log_weights.max())
    weights = np.exp(log_weights - peak)
    if int(places.max()) - low < _DENSE:
        summed = np.bincount(places - low, weights)
        at = np.flatnonzero(summed)
        found, summed = at + low, summed[at]
    else:
        found, number = np.unique(places, return_inverse=True)
        summed = np.bincount(number, weights)
        found, summed = found[summed > 0], summed[summed > 0]
    return UnitLosses(step, slack, found, np.log(summed) + peak, gone=gone, largest=largest)


@dataclass(frozen=True)
class _Tilted:
    """The law of L under mu e^(theta L): losses [N] ascending, their shares [N].

    log_total: ln of the whole. Of any mean of a function w of the loss, the bracket's half width is at most
    noise ||w|| + 2 e^-36 max |w|, and 0 without noise.
    """

    log_total: float
    losses: Array
    shares: Array
    noise: float
    slack: float

    def mean(self, values: Array) -> Bracket[float]:
        """Of a function of the losses, values [N] in [0, 1] or so."""
        middle = float(self.shares @ values)
        if not self.noise:
            return Bracket(middle, middle)
        error = self.noise * float(np.linalg.norm(values)) + 2 * math.exp(-_TAIL) * float(values.max(initial=0.0))
        return Bracket(max(0.0, middle - error), middle + error)

    @property
    def error(self) -> float:
        """Of any sum of shares."""
        return self.noise * math.sqrt(len(self.shares)) + 2 * math.exp(-_TAIL)

    def excess(self, levels: Array) -> Array:
        """[levels]: sum (P - e^level P')_+ of the rounded pair; for the tilt 1/2, and levels above -20."""
        other = self.shares * np.exp(-np.maximum(self.losses, -_FAR))
        first = np.searchsorted(self.losses, levels)
        return math.exp(self.log_total) * (
            _above(self.shares)[first] - np.exp(np.minimum(levels, 700)) * _above(other)[first]
        )


@dataclass(frozen=True)
class Product:
    """The pair of products of some units' laws; units whose laws are equal may be left out.

    All units share a step.
    """

    units: Sequence[UnitLosses]

    @property
    def reversed(self) -> Product:
        """The pair the other way round: P' and P."""
        return Product([_turned(unit) for unit in self.units])

    @property
    def pure_loss(self) -> float:
        """The largest loss of any output, exactly: the units' sum."""
        return sum(unit.largest[0] for unit in self.units)

    @property
    def gone(self) -> float:
        """P(P' = 0): the mass at which the loss is infinite."""
        if any(unit.gone[0] >= 1 for unit in self.units):
            return 1.0
        return -math.expm1(sum(math.log1p(-unit.gone[0]) for unit in self.units))

    @property
    def apart(self) -> bool:
        """Whether no output is possible under both."""
        return any(not len(unit.places) for unit in self.units)

    def log_error(self) -> Bracket[float]:
        """ln of the Bayes error of two equally likely texts, half of the overlap sum_y min(P, P')."""
        if self.apart:
            return Bracket(-math.inf, -math.inf)
        if not self.units:
            return Bracket(-math.log(2), -math.log(2))
        theta, (_, mean, variance) = 0.0, self._cumulants(0.0)
        if mean**2 > _FAR * variance:
            theta = self._tilt_to(0.0, -0.5, 0.5)
        law, share = self._mean(theta, lambda law: np.exp(-theta * law.losses - np.abs(law.losses) / 2))
        low, high = (law.log_total + _log(part) for part in (share.low, share.high))
        return Bracket(min(low - law.slack / 2, 0.0) - math.log(2), min(high + law.slack / 2, 0.0) - math.log(2))

    def delta(self, level: float) -> Bracket[float]:
        """The least delta at which P <= e^level P' + delta everywhere; level >= 0, in nats.

        To full relative accuracy, however small: the tilt is centred at the level.
        """
        gone = self.gone
        if self.apart or not self.units:
            return Bracket(gone, gone)
        theta = 0.5
        if self._cumulants(theta)[1] < level < self._span[1]:
            theta = self._tilt_to(level, theta, math.inf)
        low, high = self._excess(theta, level, 1).low, self._excess(theta, level, -1).high
        return Bracket(min(1.0, gone + low), min(1.0, gone + high))

    def deltas(self, levels: Array) -> Bracket[Array]:
        """[levels]: delta at each, to an absolute error of 1e-9 or less beside the rounding's, from one convolution."""
        gone = self.gone
        if self.apart or not self.units:
            return Bracket(np.full(len(levels), gone), np.full(len(levels), gone))
        law = self._tilted(0.5)
        s, error = law.slack / 2, law.error
        low = gone + np.exp(-s) * np.maximum(law.excess(levels + 2 * s) - error, 0.0)
        high = gone + np.exp(s) * (np.maximum(law.excess(levels - 2 * s), 0.0) + error)
        return Bracket(np.minimum(low, 1.0), np.minimum(high, 1.0))

    def power(self, false_positives: Array) -> Bracket[Array]:
        """[n]: the largest P(S) of a test S with P'(S) at most this [n] (Neyman and Pearson): the trade-off curve.

        The least of e^level P'(S) + delta(level) over the levels, at all of the rounded pair's slopes.
        """
        if self.apart or not self.units:
            certain = np.ones(len(false_positives)) if self.apart else false_positives
            return Bracket(certain, certain)
        law = self._tilted(0.5)
        s, gone = law.slack / 2, self.gone
        levels = law.losses[law.losses > -_FAR]
        levels = np.append(levels, levels[-1] + law.slack) if len(levels) else np.zeros(1)
        excess, slopes = law.excess(levels), np.exp(levels)

        def largest(f: float) -> float:
            return float(min(np.min(slopes * f + excess), 1.0))

        low = np.array([math.exp(-s) * (largest(math.exp(-s) * f) - law.error) + gone for f in false_positives])
        high = np.array([math.exp(s) * (largest(math.exp(s) * f) + law.error) + gone for f in false_positives])
        return Bracket(np.clip(low, false_positives, 1.0), np.minimum(high, 1.0))

    def _excess(self, theta: float, level: float, sign: int) -> Bracket[float]:
        """sum (P - e^level P')_+ from the law under a tilt of at least 1/2; sign: 1 for the least, -1 for the largest.

        Rounding multiplies P by e^s at most and P' by e^-s at least, s half the slack: e^s delta(level - 2 s).
        """

        def weight(law: _Tilted) -> Array:
            beyond = np.maximum(law.losses - (level + sign * law.slack), 0.0)
            return np.exp((0.5 - theta) * beyond) - np.exp(-(0.5 + theta) * beyond)

        law, mean = self._mean(theta, weight)
        scale = math.exp(law.log_total + (0.5 - theta) * (level + sign * law.slack) - sign * law.slack / 2)
        return Bracket(scale * mean.low, scale * mean.high)

    def _mean(self, theta: float, function: Callable[[_Tilted], Array]) -> tuple[_Tilted, Bracket[float]]:
        """The law under a tilt, and a mean under it: without FFT where that would leave the mean in doubt."""
        if self._products > _FEW:
            law = self._tilted(theta)
            mean = law.mean(function(law))
            if mean.low >= _DOUBT * mean.high:
                return law, mean
        law = self._directly(theta)
        return law, law.mean(function(law))

    @cached_property
    def _flat(self) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
        """All units' losses and log-weights end to end, where each begins, and the unit of each."""
        lengths = np.array([len(unit.places) for unit in self.units])
        losses = np.concatenate([unit.places * unit.step for unit in self.units])
        starts = np.append(0, np.cumsum(lengths)[:-1])
        return (
            losses,
            np.concatenate([u.log_weights for u in self.units]),
            starts,
            np.repeat(range(len(lengths)), lengths),
        )

    @cached_property
    def _span(self) -> tuple[float, float]:
        """The smallest and the largest rounded loss of the product."""
        ends = [(unit.places[0] * unit.step, unit.places[-1] * unit.step) for unit in self.units]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _weighed(self, theta: float) -> tuple[Array, Array, Array]:
        """The units' weights under a tilt, each unit's adding up to 1; their logarithmic totals; their means."""
        losses, log_weights, starts, unit = self._flat
        tilted = log_weights + theta * losses
        peak = np.maximum.reduceat(tilted, starts)
        weights = np.exp(tilted - peak[unit])
        total = np.add.reduceat(weights, starts)
        weights /= total[unit]
        return weights, peak + np.log(total), np.add.reduceat(weights * losses, starts)

    def _cumulants(self, theta: float) -> tuple[float, float, float]:
        """K(theta) = ln sum mu e^(theta L), and the mean and variance of L there."""
        weights, log_totals, means = self._weighed(theta)
        losses, _, _, unit = self._flat
        return float(log_totals.sum()), float(means.sum()), float((weights * (losses - means[unit]) ** 2).sum())

    def _tilt_to(self, target: float, low: float, high: float) -> float:
        """The theta within [low, high] at which the mean of L is about the target: K' grows with theta."""
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

    def _tilted(self, theta: float) -> _Tilted:
        """The law of L under a tilt, by FFT on a window beyond which at most 2 e^-36 lies."""
        log_total, _, variance = self._cumulants(theta)
        deviation = math.sqrt(max(variance, 1e-300))
        low, high = self._span
        for scale in (8.0, 3.0, 1.0):
            t = scale / deviation
            if t * (high - low) > 1e-9:
                high = min(high, (self._cumulants(theta + t)[0] - log_total + _TAIL) / t)
                low = max(low, -(self._cumulants(theta - t)[0] - log_total + _TAIL) / t)
        step = self.units[0].step
        first = math.floor(low / step)
        size = math.ceil(high / step) - first + 1
        if size > _WINDOW:
            return Product([_coarser(unit, 2 ** math.ceil(math.log2(size / _WINDOW))) for unit in self.units])._tilted(
                theta
            )
        size = next_fast_len(max(size, 2), real=True)
        weights, _, _ = self._weighed(theta)
        _, _, starts, _ = self._flat
        spectrum = np.ones(size // 2 + 1, np.complex128)
        for unit, start in zip(self.units, starts, strict=True):
            part = np.bincount(unit.places % size, weights[start : start + len(unit.places)], size)
            spectrum *= rfft(part)
        shares = np.roll(irfft(spectrum, size), -(first % size))
        norm = float(np.linalg.norm(shares))
        noise = np.finfo(float).eps * (len(self.units) + 2) * math.log2(size) * norm
        losses = (first + np.arange(size)) * step
        slack = sum(unit.slack for unit in self.units)
        return _Tilted(log_total, losses, np.maximum(shares, 0.0), noise=noise, slack=slack)

    def _directly(self, theta: float) -> _Tilted:
        """As `_tilted` by sums of products alone, which are exact to their last digits wherever they are."""
        if self._products > _PRODUCTS:
            return Product([_coarser(unit, 2) for unit in self.units])._directly(theta)
        weights, _, _ = self._weighed(theta)
        _, _, starts, _ = self._flat
        shares: Array = np.ones(1)
        first = 0
        for unit, start in zip(self.units, starts, strict=True):
            own = weights[start : start + len(unit.places)]
            inside = unit.places - unit.places[0]
            spread: Array = np.zeros(len(shares) + int(inside[-1]))
            if len(shares) == 1:
                spread[inside] = own
            else:
                for place, weight in zip(inside, own, strict=True):
                    spread[place : place + len(shares)] += weight * shares
            shares, first = spread, first + int(unit.places[0])
        losses = np.arange(first, first + len(shares)) * self.units[0].step
        slack = sum(unit.slack for unit in self.units)
        return _Tilted(self._cumulants(theta)[0], np.asarray(losses, np.float64), shares, noise=0.0, slack=slack)

    @property
    def _products(self) -> float:
        """How many products of weights a convolution without FFT takes."""
        low, high = self._span
        return (high - low) / self.units[0].step * sum(len(unit.places) for unit in self.units[1:])


def _above(values: Array) -> Array:
    """[N + 1]: the sum of the values from each place on."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _turned(unit: UnitLosses) -> UnitLosses:
    return replace(
        unit,
        places=-unit.places[::-1],
        log_weights=unit.log_weights[::-1],
        gone=unit.gone[::-1],
        largest=unit.largest[::-1],
    )


def _coarser(unit: UnitLosses, factor: int) -> UnitLosses:
    """On a grid whose step is so many times as long."""
    step = unit.step * factor
    places = np.rint(unit.places / factor).astype(np.int64)
    slack = unit.slack + step / 2
    return _gathered(places, unit.log_weights, step, slack, gone=unit.gone, largest=unit.largest)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
