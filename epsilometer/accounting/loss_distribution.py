"""The loss of many steps from the law of the loss of one: a bracket [lower, upper] of the exact epsilon at a delta.

With L_t = ln P/P' of step t under P (`pairs.py`) and S = L_1 + ... + L_T, delta(eps) = E (1 - e^(eps - S))^+ exactly.

*Rounding.* A loss l between two points g and g + h of a grid goes up with probability (1 - e^-(l - g)) / (1 - e^-h),
else down. So e^-L' has the mean e^-l. As (1 - e^(eps - S))^+ is convex in each e^-L_t, rounding one step after
another only raises delta: an **upper bound** ("connect the dots", Doroshenko et al. 2022, arXiv:2207.04380). For the
**lower bound**, the amounts D_t by which losses were raised are independent, at most h, and their mean and variance are
computed; by Bernstein's inequality their sum exceeds T E D + t with probability at most eta, so

    delta(eps) >= delta'(eps + T E D + t) - eta.

*Composition.* The rounded law is tilted by e^(lambda l), lambda being that of Chernoff's bound at this delta, so
the tilted sum lies about epsilon itself, however rare that is under P; its T-th power by FFT needs a window of only
about 20 deviations, and digits are lost against Chernoff's bound, not against 1. The mass outside the window, by
Chernoff e^-40 of the tilted mass, is added to one bound and subtracted from the other; so is the mass that the grid
omits in one step.

Floating point is covered by measurement, not by theorem: errors of the transform are about 1e-13 of Chernoff's bound,
and delta is never less than e^-20 of that bound; delta is raised and lowered by 1e-4 of itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from epsilometer.accounting.pairs import Atoms, Pair
from epsilometer.accounting.steps import Step

Array = NDArray[np.float64]

WIDTH = 0.01  # of a bracket: relative, and absolute below epsilon 1
_ROUNDING = 1e-4  # share of delta for floating point
_DIGITS = 20.0  # most nats that delta may lie below Chernoff's bound
_LEFT_OUT = 1e-7  # share of delta for the mass outside the spans
_FAILURE = 1e-3  # eta as a share of delta
_WRAPPED = 40.0  # nats: the tilted mass outside the window is at most e^-40 on each side
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_PANELS = 16  # of the quadrature per scale of a density: errors of about 1e-12
_CHUNK = 1 << 16  # panels at a time
_LARGEST = 1 << 23  # most points of a window


@dataclass(frozen=True)
class EpsilonBracket:
    """lower <= the exact epsilon <= upper, in nats."""

    lower: float
    upper: float


def bracket(directions: Sequence[Step], steps: int, delta: float, width: float = WIDTH) -> EpsilonBracket:
    """Return the epsilon at `delta`, 0 < delta < 1, of a number of equal steps: the largest over all directions.

    width: the largest width of the bracket, relative to epsilon, and absolute below epsilon 1.
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
    share = 0.4  # share of the width for the lower bound, at first
    while True:
        result = _composed(spread, spread.grid(share * width * max(1.0, spread.chernoff)))
        narrow = result.upper - result.lower <= width * max(1.0, result.upper)
        if spread.log_factor(result.upper) > _DIGITS or not (narrow or result.lower):
            if spread.tilt * spread.chernoff < 1:  # losses end so close to epsilon that no tilt resolves them
                return EpsilonBracket(0.0, min(spread.chernoff, spread.largest))
            spread.tilt_less()
        elif narrow or share < 0.03:
            return result
        else:
            share /= 3


class _Spread:
    """The location of the tilted sum of the losses, by quadrature and without a grid."""

    def __init__(self, step: Step, steps: int, delta: float, width: float) -> None:
        self.step, self.steps, self.delta = step, steps, delta
        self.counts = Counter(step.pairs)
        self.draws = steps * len(step.pairs)
        self.tail = max(_LEFT_OUT * delta / (2 * self.draws), 1e-300)
        self.nodes: dict[Pair | Atoms, tuple[Array, Array]] = {}
        self.places: dict[Pair | Atoms, Array] = {}  # coordinates of the nodes, which a loss need not determine
        for pair in self.counts:
            self.places[pair], *nodes = _whole(pair, self.tail)
            self.nodes[pair] = nodes[0], nodes[1]
        self.largest = steps * sum(pair.largest for pair in step.pairs)
        self.chernoff, self.tilt = self._tilt(width)
        self.finest = 1e-4 * width * max(1.0, self.chernoff)  # a deviation below which no detail is needed
        self._lay_out()

    def log_factor(self, epsilon: float) -> float:
        """Return ln of Chernoff's bound over delta: large where epsilon lies far below the tilted sum's location."""
        return self.log_moment(self.tilt) - self.tilt * epsilon - math.log(self.delta)

    def tilt_less(self) -> None:
        """Halve the tilt."""
        self.tilt /= 2
        self._lay_out()

    def _lay_out(self) -> None:
        self.centre, self.deviation = self._moments()
        self.reaches = self._reach(-1.0), self._reach(1.0)

    def log_moment(self, tilt: float) -> float:
        """Return ln E e^(tilt S), over the mass in the spans."""
        parts = 0.0
        for pair, n in self.counts.items():
            losses, logs = self.nodes[pair]
            parts += n * float(logsumexp(logs + tilt * losses))
        return self.steps * float(np.logaddexp(_log(1 - self.step.coin), math.log(self.step.coin) + parts))

    def _moments(self) -> tuple[float, float]:
        """Return the mean and the deviation of the tilted sum."""
        mean, variance, shown = 0.0, 0.0, math.log(self.step.coin)
        for pair, n in self.counts.items():
            losses, logs = self.nodes[pair]
            log_moment = float(logsumexp(logs + self.tilt * losses))
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
        """Return Chernoff's bound, epsilon <= min over lambda of (ln E e^(lambda S) + ln 1/delta) / lambda; and a tilt.

        The tilt is the least lambda that is nearly as good, which matters where losses end: there the best one is so
        large that it resolves the end more finely than needed.
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
        """Yield losses and log-masses [n] of the pair, in panels that no point of the grid of step h divides."""
        if isinstance(pair, Atoms):
            yield self.nodes[pair]
        else:
            yield from ((losses, logs) for _, losses, logs in _quadrature(pair, self._spans(pair), h))

    def _spans(self, pair: Pair) -> Iterator[tuple[float, float]]:
        """Return the pair's spans without the lowest losses, at most e^-40 of the tilted mass in all steps."""
        losses, logs = self.nodes[pair]
        logs = logs + self.tilt * losses
        below = float(logsumexp(logs)) - _WRAPPED - math.log(self.draws)
        first = int(np.searchsorted(np.logaddexp.accumulate(logs), below))  # the nodes ascend
        start = float(self.places[pair][first - 1]) if first else -math.inf
        for low, high in pair.spans(self.tail):
            if high > start:
                yield max(low, start), high

    def _reach(self, sign: float) -> float:
        """Return how far below (-1) or above (1) the centre all but e^-40 of the tilted mass reaches (Chernoff)."""
        at = self.log_moment(self.tilt)
        thetas = (np.geomspace(0.3, 60, 40) / self.deviation).tolist()
        return min((self.log_moment(self.tilt + sign * t) - at - sign * t * self.centre + _WRAPPED) / t for t in thetas)

    def grid(self, allowed: float) -> float:
        """Return the step h at which the lower bound is off by about `allowed` nats, for the worst rounding."""
        rarity = -math.log(_FAILURE * self.delta)
        raised = self.draws * self.step.coin
        spread = rarity / 3 + math.sqrt((rarity / 3) ** 2 + 2 * raised / 6 * rarity)
        finest = sum(self.reaches) / _LARGEST
        return max(min(allowed / spread, math.sqrt(0.8 * allowed / max(raised, 1)), self.deviation / 32), finest)


def _composed(spread: _Spread, h: float) -> EpsilonBracket:
    """Return the bracket by a grid of step h."""
    below, above = spread.reaches
    first = math.floor((spread.centre - below) / h) - 1
    size = next_fast_len(math.ceil((spread.centre + above) / h) + 2 - first, real=True)
    transform: NDArray[np.complex128] | None = None
    log_moment, mean, variance, shift = 0.0, 0.0, 0.0, 0
    for pair, n in spread.counts.items():
        law = _rounded(spread, pair, h, size)
        power = rfft(law.masses) ** n
        transform = power if transform is None else transform * power
        log_moment, shift = log_moment + n * law.log_moment, shift + n * law.shift
        mean, variance = mean + n * law.mean, variance + n * law.variance
    assert transform is not None
    coin, steps = spread.step.coin, spread.steps
    shown = math.log(coin) + log_moment
    total = float(np.logaddexp(_log(1 - coin), shown))
    if coin < 1:  # place 0 means no loss, and is at -shift in a law that was shifted by `shift`
        turns = np.exp(2j * math.pi / size * ((np.arange(len(transform)) * (shift % size)) % size))
        transform = transform * math.exp(shown - total) + math.exp(_log(1 - coin) - total) * turns
    tilted = np.maximum(irfft(_power(transform, steps), size), 0.0)
    start = first - steps * shift
    losses_from = first * h
    tilted = np.roll(tilted, -(start % size))
    composed = _Composed(tilted, losses_from, h, tilt=spread.tilt, log_moment=steps * total)
    mean, variance = coin * mean, coin * variance + coin * (1 - coin) * mean**2
    return _ends(spread, composed, steps * mean, (steps * variance, len(spread.step.pairs) * h))


def _ends(spread: _Spread, composed: _Composed, raised: float, spread_of: tuple[float, float]) -> EpsilonBracket:
    """Return the bracket; raised: T E D; spread_of: the variance of the sum of D and the most that one step adds."""
    delta = spread.delta
    variance, most = spread_of
    rarity = -math.log(_FAILURE * delta)
    late = most * rarity / 3 + math.sqrt((most * rarity / 3) ** 2 + 2 * variance * rarity)
    left_out = 2 * spread.tail * spread.draws
    upper = min(composed.epsilon(delta * (1 - _ROUNDING) - left_out, 1.0), spread.largest)
    lower = composed.epsilon(delta * (1 + _ROUNDING + _FAILURE) + left_out, -1.0) - raised - late
    return EpsilonBracket(max(0.0, min(lower, upper)), upper)


@dataclass(frozen=True)
class _Composed:
    """The tilted law of the rounded sum: masses at `start` + i h, of weight e^(log_moment - tilt s) each under P."""

    masses: Array
    start: float
    h: float
    tilt: float
    log_moment: float

    def log_delta(self, epsilon: float, wrapped: float) -> float:
        """Return ln delta at epsilon; wrapped: 1 adds the error of the window's mass, -1 subtracts it."""
        i = max(0, math.floor((epsilon - self.start) / self.h) + 1)
        beyond = self.start - epsilon + np.arange(i, len(self.masses)) * self.h
        kept_to = len(beyond) if self.tilt <= 0 else int(np.searchsorted(beyond, 100 / self.tilt))
        beyond = beyond[:kept_to]
        weighed = self.masses[i : i + kept_to] @ (np.exp(-self.tilt * beyond) * -np.expm1(-beyond))
        # (1 - e^-x) e^(-tilt x) is below min(1, 1 / tilt), also where the window ends.
        total = float(weighed) + wrapped * 3 * math.exp(-_WRAPPED) * min(1.0, 1 / self.tilt)
        return self.log_moment - self.tilt * epsilon + math.log(total) if total > 0 else -math.inf

    def epsilon(self, delta: float, wrapped: float) -> float:
        """Return the least epsilon >= 0 at which delta holds."""
        if delta <= 0:
            return math.inf
        low, high = max(0.0, self.start), self.start + len(self.masses) * self.h

        def excess(epsilon: float) -> float:
            return max(self.log_delta(epsilon, wrapped) - math.log(delta), -1e6)

        if wrapped < 0:  # far below the tilted sum's location, the subtracted error exceeds the mass there
            above = [epsilon for epsilon in np.linspace(low, high, 33).tolist() if excess(epsilon) > 0]
            if high <= 0 or not above:
                return 0.0
            low = above[-1]
        elif high <= 0 or excess(low) <= 0:
            return max(0.0, min(low, high))
        if excess(high) > 0:
            return high if wrapped < 0 else math.inf
        root = float(brentq(excess, low, high, xtol=1e-9 * max(1.0, low), rtol=1e-12))
        return max(0.0, root + wrapped * 2e-9 * max(1.0, root))


@dataclass(frozen=True)
class _Rounded:
    """One pair's tilted law on the grid: masses at places modulo the window, `shift` of them lower; ln of its sum.

    mean, variance: of the amount D by which a loss was raised, under P.
    """

    masses: Array
    shift: int
    log_moment: float
    mean: float
    variance: float


def _rounded(spread: _Spread, pair: Pair | Atoms, h: float, size: int) -> _Rounded:
    losses, logs = spread.nodes[pair]
    scale = float(logsumexp(logs + spread.tilt * losses))
    shift = round(
        float(np.exp(logs + spread.tilt * losses - scale) @ losses) / h
    )  # keeps phases, and their errors, small
    masses, mean, square = np.zeros(size), 0.0, 0.0
    for losses, logs in spread.losses(pair, h):
        below = np.floor(losses / h)
        over = losses - below * h
        up = np.clip(np.expm1(-over) / math.expm1(-h), 0, 1)
        tilted = np.exp(logs + spread.tilt * below * h - scale)
        at = (below.astype(np.int64) - shift) % size
        masses += np.bincount(at, tilted * (1 - up), size)
        masses += np.bincount((at + 1) % size, tilted * up * math.exp(spread.tilt * h), size)
        plain = np.exp(logs)
        mean += float(plain @ (up * h - over))
        square += float(plain @ (up * (h - over) ** 2 + (1 - up) * over**2))
    total = float(masses.sum())
    variance = max(square - mean**2, 0.0)
    return _Rounded(masses / total, shift, scale + math.log(total), mean=mean, variance=variance)


def _quadrature(
    pair: Pair, spans: Iterable[tuple[float, float]], h: float | None
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield coordinates, losses and log-masses [n] of a quadrature over spans, panels divided at grid points of h."""
    for low, high in spans:
        panels = math.ceil((high - low) / pair.scale * _PANELS)
        edges = np.linspace(low, high, panels + 1)
        halved = high - (high - low) / panels * 0.5 ** np.arange(1, 40)  # a tilt emphasises the end of bounded losses
        edges = np.unique(np.concatenate([edges, halved]))
        if h is None:
            yield _atoms(pair, edges)
            continue
        ends = pair.loss(edges[[0, -1]]) / h
        first, last = math.ceil(ends[0]), math.floor(ends[1])
        for start in range(first, last + 1, _CHUNK):
            cut = pair.place(np.arange(start, min(start + _CHUNK, last + 1)) * h)
            cut = cut[(cut > low) & (cut < high)]
            until = high if start + _CHUNK > last else float(pair.place(np.array([(start + _CHUNK - 1) * h]))[0])
            here = np.union1d(np.concatenate([[low], cut, [until]]), edges[(edges > low) & (edges < until)])
            yield _atoms(pair, here)
            low = until
        if first > last:
            yield _atoms(pair, edges)


def _atoms(pair: Pair, edges: Array) -> tuple[Array, Array, Array]:
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (_NODES + 1)).ravel()
    with np.errstate(divide="ignore"):
        return x, pair.loss(x), pair.log_density(x) + np.log(half * _WEIGHTS).ravel()


def _whole(pair: Pair | Atoms, tail: float) -> tuple[Array, Array, Array]:
    """Return coordinates and losses, ascending, and log-masses [n] of a pair, by its own quadrature."""
    if isinstance(pair, Atoms):
        return pair.losses, pair.losses, pair.log_masses
    places, losses, logs = zip(*_quadrature(pair, pair.spans(tail), None), strict=True)
    return np.concatenate(places), np.concatenate(losses), np.concatenate(logs)


def _power(transform: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    if count == 1:
        return transform
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(transform == 0, 0, np.exp(count * np.log(transform)))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
