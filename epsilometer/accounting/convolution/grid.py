"""The losses between two laws, put on a grid so that no epsilon, delta or guess loss is understated.

Let the loss l = ln P(y) / P'(y) of an output y lie between the grid points g and g + h. The output is split into two
outputs, with losses g and g + h. The output's weight mu = sqrt(P P') is divided into the two weights

    mu_g = mu sinh((g + h - l) / 2) / sinh(h / 2),    mu_(g+h) = mu sinh((l - g) / 2) / sinh(h / 2),

which preserve P(y) and P'(y) ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022,
arXiv:2207.04380). Merging the two outputs again recovers the true pair of laws. So the split pair is at least as easy
to tell apart as the true pair. The same is true of products of several independent pairs. Two quantities measure how
much easier the split pair is to tell apart. `auditing/exact_loss/products.py` uses `gap`, the maximum of
2 sinh((l - g) / 2) sinh((g + h - l) / 2) / sinh(h / 2), which is at most h / 4. `accounting/loss_distribution.py` uses
`raise_moments`: the mean and the mean square of the amount by which the split raises a loss under P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError

Array = NDArray[np.float64]
_ONE_SCALE = 600.0  # largest log-weights, in nats, that are summed without scaling
_LONGEST = 1400.0  # nats: e^(step / 2) of a longer step overflows
_ROUNDING = 1e-15  # relative error of a sum of weights
_DENSE = 8  # with more grid points per output, sums use sorting instead of counting


@dataclass(frozen=True)
class UnitLosses:
    """The losses of one unit's outputs on a grid, in ascending order, weighted by sqrt(P P').

    step:         the distance between grid points, in nats.
    places:       int64 [m], losses as multiples of the step.
    log_weights:  [m], natural logarithms of the weights.
    gone:         P(P' = 0) and P'(P = 0): under each law, the probability of the outputs that the other law excludes.
    largest:      the largest loss of an output, from P to P' and from P' to P, exactly.
    moved, gap:   the largest shift of a loss, in nats, and the most that all shifts together add to a figure.
    """

    step: float
    places: NDArray[np.int64]
    log_weights: Array
    gone: tuple[float, float]
    largest: tuple[float, float]
    moved: float = 0.0
    gap: float = 0.0

    @property
    def reversed(self) -> UnitLosses:
        """The losses from P' to P."""
        return replace(
            self,
            places=-self.places[::-1],
            log_weights=self.log_weights[::-1],
            gone=self.gone[::-1],
            largest=self.largest[::-1],
        )

    def coarser(self, factor: int) -> UnitLosses:
        """Return the same losses on a grid whose step is `factor` times as long."""
        step = self.step * factor
        losses = np.asarray(self.places * self.step, np.float64)
        first, second = self.log_weights + losses / 2, self.log_weights - losses / 2
        places, log_weights, gap = split(first, second, losses, step)
        return replace(
            self, step=step, places=places, log_weights=log_weights, moved=self.moved + step, gap=self.gap + gap
        )


def unit_losses(first: Array, second: Array, step: float, masses: tuple[Array, Array] | None = None) -> UnitLosses:
    """Return the losses between two laws [outputs], given as natural logarithms, on a grid of this step in nats.

    masses: the exponentials of both laws. Pass them if a law is compared more than once, to save time.
    """
    with np.errstate(invalid="ignore"):
        losses = first - second
    gone, apart = (0.0, 0.0), (False, False)
    if not (common := np.isfinite(losses)).all():
        alone = first[np.isneginf(second)], second[np.isneginf(first)]
        gone = (_mass(alone[0]), _mass(alone[1]))
        apart = (bool(np.isfinite(alone[0]).any()), bool(np.isfinite(alone[1]).any()))  # the mass may underflow
        first, second, losses = first[common], second[common], losses[common]
        masses = None if masses is None else (masses[0][common], masses[1][common])
    if not len(losses):
        return UnitLosses(step, np.empty(0, np.int64), np.empty(0), gone, largest=(math.inf, math.inf))
    largest = (math.inf if apart[0] else float(losses.max()), math.inf if apart[1] else -float(losses.min()))
    places, log_weights, gap = split(first, second, losses, step, masses=masses)
    return UnitLosses(step, places, log_weights, gone, largest=largest, moved=step, gap=gap)


def loss_range(first: Array, second: Array) -> float:
    """Return the largest finite |L| between two log-laws [outputs]; 0 if no output is possible under both."""
    with np.errstate(invalid="ignore"):
        loss = np.abs(first - second)
    return float(loss.max()) if np.isfinite(loss).all() else float(loss[np.isfinite(loss)].max(initial=0.0))


def split(
    first: Array, second: Array, losses: Array, step: float, *, masses: tuple[Array, Array] | None = None
) -> tuple[NDArray[np.int64], Array, float]:
    """Put the losses [n] between log-laws [n] on a grid; return the grid points [m] in order, log-weights [m] and gap.

    Consider all outputs with losses between g and g + h. Since mu = P e^(-l / 2) = P' e^(l / 2), two sums determine the
    weights of both grid points: a = e^(-g / 2) sum P and b = e^(g / 2) sum P'. The point g + h gets the weight
    u = (a - b) / (2 sinh(h / 2)), and g gets b - u e^(-h / 2).
    """
    if step > _LONGEST:
        raise UserError(
            f"a unit's loss of up to {np.abs(losses).max():.3g} nats is too large for the grid; choose a smaller "
            "epsilon",
            "EPS-A081",
        )
    places = losses / step
    below = np.floor(places)
    half_way = step * float(np.abs(places - below - 0.5).min())
    offset = min(max(step / 2 - half_way, 0.0), step / 2)
    gap = 2 * math.sinh(offset / 2) * math.sinh((step - offset) / 2) / math.sinh(step / 2)
    starts, peaks, a, b = _sums(first, second, below, step=step, masses=masses)
    rounding = _ROUNDING * (1 + np.abs(starts) * (step / 2))
    upper = np.where(a - b > rounding * (a + b), a - b, 0.0) / (2 * math.sinh(step / 2))
    lower = b - upper * math.exp(-step / 2)
    with np.errstate(divide="ignore"):
        lower = np.log(np.where(lower > rounding * b, lower, 0.0)) + peaks
        upper = np.log(upper) + peaks
    met = np.flatnonzero(np.diff(starts) == 1)  # g + h is the lower point of the next interval
    lower[met + 1] = np.logaddexp(lower[met + 1], upper[met])
    upper[met] = -np.inf
    places, log_weights = np.stack([starts, starts + 1], axis=1).ravel(), np.stack([lower, upper], axis=1).ravel()
    used = np.flatnonzero(log_weights > -np.inf)
    return places[used], log_weights[used], gap  # type: ignore[return-value]


def raise_moments(losses: Array, step: float) -> tuple[Array, Array]:
    """Return the mean and the mean square, each [n], of the amount by which the split raises each loss under P.

    Under P, a loss l is raised to g + h with probability (1 - e^-(l - g)) / (1 - e^-h), else lowered to g.
    """
    over = losses - np.floor(losses / step) * step
    up = np.clip(np.expm1(-over) / math.expm1(-step), 0, 1)
    return up * step - over, up * (step - over) ** 2 + (1 - up) * over**2


def _sums(
    first: Array, second: Array, below: Array, *, step: float, masses: tuple[Array, Array] | None
) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """Return the distinct places in ascending order, ln of the scale of each, and the sums a and b, all [m].

    below: [n], the place below the loss of each output.

    If no mass underflows, the masses of a place are summed first, and the sums are scaled afterwards. Otherwise the
    masses of each place are scaled by that place's largest weight before they are summed. With one scale for all
    places, weights of e^-1000 would vanish. The weight sqrt(P P') is that small if P is nearly 1 and P' is e^-2000.
    """
    lowest = int(below.min())
    size = int(below.max()) - lowest + 1
    if size <= _DENSE * len(below):
        starts, at = lowest + np.arange(size), (below - lowest).astype(np.int64)
    else:
        starts, at = np.unique(below.astype(np.int64), return_inverse=True)
    if min(first.min(), second.min()) > -_ONE_SCALE and max(first.max(), second.max()) < _ONE_SCALE:
        p, q = (np.exp(first), np.exp(second)) if masses is None else masses
        peaks, half = np.zeros(len(starts)), starts * (step / 2)
        a = np.bincount(at, p, len(starts))
        b = np.bincount(at, q, len(starts))
        used = np.flatnonzero(a + b)
        return starts[used], peaks[used], a[used] * np.exp(-half[used]), b[used] * np.exp(half[used])
    log_weights, half = (first + second) / 2, below * (step / 2)
    peaks = np.full(len(starts), -np.inf)
    np.maximum.at(peaks, at, log_weights)
    scale = peaks[at]
    a = np.bincount(at, np.exp(first - half - scale), len(starts))
    b = np.bincount(at, np.exp(second + half - scale), len(starts))
    used = np.flatnonzero(a + b)
    return starts[used], peaks[used], a[used], b[used]  # type: ignore[return-value]


def _mass(log_law: Array) -> float:
    return float(np.exp(log_law).sum())
