"""A bracket [lower, upper] of the exact epsilon of many steps at a delta, from the law of one step's loss.

Let L_t be the loss ln P/P' of step t under P (`dominating_pairs.py`), and S = L_1 + ... + L_T. Then exactly
delta(eps) = E (1 - e^(eps - S))^+.

*Rounding.* Each loss l lies between two points g and g + h of a grid. It is rounded up with probability
(1 - e^-(l - g)) / (1 - e^-h), else down, so that the rounded loss L' has E e^-L' = e^-l. Since (1 - e^(eps - S))^+ is
convex in each e^-L_t, rounding one step after another never lowers delta. So the rounded losses give the **upper
bound** ("connect the dots", `convolution/grid.py`). For the **lower bound**, let D_t be the amount by which the loss of
step t is raised. The D_t are independent and at most h, and their mean and variance are computed. By Bernstein's
inequality their sum exceeds T E D + r with probability at most eta. So, with delta' the delta of the rounded losses,

    delta(eps) >= delta'(eps + T E D + r) - eta.

*Composition.* The rounded law is tilted by e^(lambda l), with the lambda of Chernoff's bound at this delta. The tilted
sum then lies near epsilon, however rare such sums are under P. An FFT computes the T-fold convolution of the tilted
law. The FFT covers an interval of losses, the window, of only about 20 standard deviations. The FFT's floating-point
errors are relative to Chernoff's bound, not to 1 (`convolution/tilted.py`). Three errors widen the bracket at both
ends: the mass outside the window, the transform's error, and the mass that the grid omits in each step.

The floating-point error of the masses was measured, not proved. To cover this error, the upper bound uses a delta that
is lower by a share of 1e-4, and the lower bound uses a delta that is higher by this share. The tilt is reduced until
delta is at least e^-20 times Chernoff's bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.optimize import minimize_scalar

from epsilometer.accounting.convolution.grid import raise_moments, split
from epsilometer.accounting.convolution.spectrum import Summand, spectrum
from epsilometer.accounting.convolution.tilted import TiltedLaw, window
from epsilometer.accounting.dominating_pairs import Atoms, Pair
from epsilometer.accounting.log_sum import log_sum
from epsilometer.accounting.quadrature import quadrature, whole
from epsilometer.accounting.steps import Step

Array = NDArray[np.float64]

WIDTH = 0.01  # largest width of a bracket, as a share of epsilon; in nats if epsilon is below 1
_ROUNDING = 1e-4  # share of delta that covers floating-point errors
_DIGITS = 20.0  # ln delta is at most this many nats below the logarithm of Chernoff's bound
_LEFT_OUT = 1e-7  # largest probability outside the spans, as a share of delta
_FAILURE = 1e-3  # eta as a share of delta
_BELOW = 40.0  # nats: the lowest losses are left out; together they have at most e^-40 of the tilted mass
_SCALES = tuple(np.geomspace(0.3, 60, 12).tolist())  # scales for `window`
_LARGEST = 1 << 23  # most points of a window


@dataclass(frozen=True)
class EpsilonBracket:
    """Bounds on the exact epsilon, in nats: lower <= epsilon <= upper."""

    lower: float
    upper: float


def bracket(directions: Sequence[Step], steps: int, delta: float, width: float = WIDTH) -> EpsilonBracket:
    """Return the bracket of the epsilon of `steps` equal steps at `delta`: the largest over all directions.

    delta: between 0 and 1. width: the largest width of the bracket, as a share of epsilon; in nats if epsilon is below
    1.
    """
    lower = upper = 0.0
    for spread in sorted(
        (_Spread(step, steps, delta, width) for step in directions), key=lambda spread: -spread.centre
    ):
        if spread.chernoff <= lower:
            continue
        end = _one_direction(spread, width)
        lower, upper = max(lower, end.lower), max(upper, end.upper)
    return EpsilonBracket(lower, upper)


def _one_direction(spread: _Spread, width: float) -> EpsilonBracket:
    share = 0.4  # at first, rounding may take this part of the allowed width
    while True:
        result = _composed(spread, spread.grid(share * width * max(1.0, spread.chernoff)))
        narrow = result.upper - result.lower <= width * max(1.0, result.upper)
        if spread.log_factor(result.upper) > _DIGITS or not (narrow or result.lower):
            if spread.tilt * spread.chernoff < 1:  # epsilon is too close to the largest loss: no tilt tells them apart
                return EpsilonBracket(0.0, min(spread.chernoff, spread.largest))
            spread.tilt_less()
        elif narrow or share < 0.03:
            return result
        else:
            share /= 3


class _Spread:
    """The location and deviation of the tilted sum of losses, computed by quadrature without a grid."""

    def __init__(self, step: Step, steps: int, delta: float, width: float) -> None:
        self.step, self.steps, self.delta = step, steps, delta
        self.counts = Counter(step.pairs)
        self.draws = steps * len(step.pairs)
        self.tail = max(_LEFT_OUT * delta / (2 * self.draws), 1e-300)
        self.nodes: dict[Pair | Atoms, tuple[Array, Array]] = {}
        self.places: dict[Pair | Atoms, Array] = {}  # coordinates of the nodes; losses may repeat
        for pair in self.counts:
            self.places[pair], *nodes = whole(pair, self.tail)
            self.nodes[pair] = nodes[0], nodes[1]
        self.largest = steps * sum(pair.largest for pair in step.pairs)
        self.chernoff, self.tilt = self._tilt(width)
        self.finest = 1e-4 * width * max(1.0, self.chernoff)  # smaller deviations are raised to this
        self._lay_out()

    def log_factor(self, epsilon: float) -> float:
        """Return ln of Chernoff's bound divided by delta: large if epsilon is far below the tilted sum's location."""
        return self.log_moment(self.tilt) - self.tilt * epsilon - math.log(self.delta)

    def tilt_less(self) -> None:
        """Halve the tilt."""
        self.tilt /= 2
        self._lay_out()

    def _lay_out(self) -> None:
        self.centre, self.deviation = self._moments()
        self.window = window(self.log_moment, self.tilt, self.deviation, (-math.inf, math.inf), scales=_SCALES)

    def log_moment(self, tilt: float) -> float:
        """Return ln E e^(tilt S), computed from the losses within the spans."""
        parts = 0.0
        for pair, n in self.counts.items():
            losses, logs = self.nodes[pair]
            parts += n * log_sum(logs + tilt * losses)
        return self.steps * float(np.logaddexp(_log(1 - self.step.coin), math.log(self.step.coin) + parts))

    def _moments(self) -> tuple[float, float]:
        """Return the mean and the deviation of the tilted sum."""
        mean, variance, shown = 0.0, 0.0, math.log(self.step.coin)
        for pair, n in self.counts.items():
            losses, logs = self.nodes[pair]
            log_moment = log_sum(logs + self.tilt * losses)
            shares = np.exp(logs + self.tilt * losses - log_moment)
            shares /= shares.sum()
            about = float(shares @ losses)
            mean, variance, shown = (
                mean + n * about,
                variance + n * float(shares @ (losses - about) ** 2),
                shown + n * log_moment,
            )
        share = math.exp(shown - float(np.logaddexp(_log(1 - self.step.coin), shown)))
        variance = share * variance + share * (1 - share) * mean**2
        return self.steps * share * mean, max(math.sqrt(self.steps * variance), self.finest)

    def _tilt(self, width: float) -> tuple[float, float]:
        """Return Chernoff's bound, epsilon <= min over lambda of (ln E e^(lambda S) + ln 1/delta) / lambda, and a tilt.

        The tilt is the smallest lambda whose bound is nearly as low as the lowest. If losses are bounded, the lambda of
        the lowest bound may be so large that the tilted sum is much closer to the largest loss than a bracket needs.
        """
        rarity = -math.log(self.delta)

        def bound(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return (self.log_moment(tilt) + rarity) / tilt

        largest = max(float(np.abs(losses).max()) for losses, _ in self.nodes.values())
        grid = np.linspace(math.log(1e-12), math.log(min(1e7, 1e10 / largest)), 81)
        values = [bound(x) for x in grid]
        best = min(max(int(np.argmin(values)), 1), len(grid) - 2)
        ends = (grid[best - 1], grid[best + 1])
        least = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-3})
        bounds = float(least.fun), *values
        lowest = min(bounds)
        slack = 0.05 * width * max(1.0, lowest)
        tilts = [math.exp(x) for x in (least.x, *grid)]
        near = [t for t, value in zip(tilts, bounds, strict=True) if value - lowest <= min(slack, 3 / t)]
        return lowest, min(near)

    def losses(self, pair: Pair | Atoms, h: float) -> Iterator[tuple[Array, Array]]:
        """Yield losses and log-masses [n] of the pair. Grid points of step h lie only at the ends of panels."""
        if isinstance(pair, Atoms):
            yield self.nodes[pair]
        else:
            yield from ((losses, logs) for _, losses, logs in quadrature(pair, self._spans(pair), h))

    def _spans(self, pair: Pair) -> Iterator[tuple[float, float]]:
        """Yield the pair's spans without the lowest losses: over all steps, at most e^-40 of the tilted mass."""
        losses, logs = self.nodes[pair]
        logs = logs + self.tilt * losses
        below = log_sum(logs) - _BELOW - math.log(self.draws)
        first = int(np.searchsorted(np.logaddexp.accumulate(logs), below))  # the nodes are in ascending order
        start = float(self.places[pair][first - 1]) if first else -math.inf
        for low, high in pair.spans(self.tail):
            if high > start:
                yield max(low, start), high

    def grid(self, allowed: float) -> float:
        """Return the grid step h at which rounding lowers the lower bound by about `allowed` nats in the worst case."""
        rarity = -math.log(_FAILURE * self.delta)
        raised = self.draws * self.step.coin
        spread = rarity / 3 + math.sqrt((rarity / 3) ** 2 + 2 * raised / 6 * rarity)
        finest = (self.window[1] - self.window[0]) / _LARGEST
        return max(min(allowed / spread, math.sqrt(0.8 * allowed / max(raised, 1)), self.deviation / 32), finest)


def _composed(spread: _Spread, h: float) -> EpsilonBracket:
    """Return the bracket from a grid of step h."""
    low, high = spread.window
    first = math.floor(low / h) - 1
    size = next_fast_len(math.ceil(high / h) + 2 - first, real=True)
    rounded = [_rounded(spread, pair, h, n) for pair, n in spread.counts.items()]
    log_moment = sum(part.log_moment for part in rounded)
    mean, variance = sum(part.mean for part in rounded), sum(part.variance for part in rounded)
    coin, steps = spread.step.coin, spread.steps
    shown = math.log(coin) + log_moment
    total = float(np.logaddexp(_log(1 - coin), shown))
    of_step = spectrum([part.summand for part in rounded], size)
    shares, noise = of_step.steps(steps, math.exp(shown - total)).law(first, size)
    law = TiltedLaw(spread.tilt + 0.5, steps * total, step=h, first=first, shares=shares, noise=noise)
    mean, variance = coin * mean, coin * variance + coin * (1 - coin) * mean**2
    return _ends(spread, law, steps * mean, (steps * variance, len(spread.step.pairs) * h))


def _ends(spread: _Spread, law: TiltedLaw, raised: float, spread_of: tuple[float, float]) -> EpsilonBracket:
    """Return the bracket. raised: T E D. spread_of: the variance of the sum of all D_t, and the largest D_t."""
    delta = spread.delta
    variance, most = spread_of
    rarity = -math.log(_FAILURE * delta)
    late = most * rarity / 3 + math.sqrt((most * rarity / 3) ** 2 + 2 * variance * rarity)
    left_out = 2 * spread.tail * spread.draws
    upper = min(law.epsilon(delta * (1 - _ROUNDING) - left_out, 1), spread.largest)
    lower = law.epsilon(delta * (1 + _ROUNDING + _FAILURE) + left_out, -1) - raised - late
    return EpsilonBracket(max(0.0, min(lower, upper)), upper)


@dataclass(frozen=True)
class _Rounded:
    """The tilted and rounded losses of independent draws from one pair, and the logarithm of their total mass.

    mean, variance: the mean and variance, under P, of the amount D by which rounding raised these losses.
    """

    summand: Summand
    log_moment: float
    mean: float
    variance: float


def _rounded(spread: _Spread, pair: Pair | Atoms, h: float, draws: int) -> _Rounded:
    losses, logs = spread.nodes[pair]
    scale = log_sum(logs + spread.tilt * losses)
    places, masses, mean, square = [], [], 0.0, 0.0
    for losses, logs in spread.losses(pair, h):
        some, log_weights, _ = split(logs, logs - losses, losses, h)
        places.append(some)
        masses.append(np.exp(log_weights + (spread.tilt + 0.5) * h * some - scale))
        by, squares = raise_moments(losses, h)
        plain = np.exp(logs)
        mean += float(plain @ by)
        square += float(plain @ squares)
    shares = np.concatenate(masses)
    total = float(shares.sum())
    summand = Summand(np.concatenate(places), shares / total, draws)
    log_moment, variance = scale + math.log(total), max(square - mean**2, 0.0)
    return _Rounded(summand, draws * log_moment, mean=draws * mean, variance=draws * variance)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
