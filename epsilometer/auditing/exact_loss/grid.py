"""The losses between two laws of one unit, put on a grid in such a way that no figure is understated.

An output y whose loss l = ln P(y) / P'(y) lies between the grid points g and g + h is split into one output at each of
them. The measure mu = sqrt(P P') is divided into

    mu_g = mu sinh((g + h - l) / 2) / sinh(h / 2),    mu_(g+h) = mu sinh((l - g) / 2) / sinh(h / 2),

which preserve P(y) and P'(y) ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022,
arXiv:2207.04380). Ignoring which half an output went to recovers the true pair of laws, so the split pair is at least
as easy to tell apart, in products too. How much easier is bounded by `gap` (`products.py`): the largest of
2 sinh((l - g) / 2) sinh((g + h - l) / 2) / sinh(h / 2), which is at most h / 4. This file knows nothing about texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ONE_SCALE = 600.0  # nats between the largest and the smallest of weights that are summed in one scale
_DENSE = 1 << 20  # up to this many grid points, weights are summed by counting, not by sorting


@dataclass(frozen=True)
class UnitLosses:
    """The losses of one unit's outputs on a grid, ascending, weighted by sqrt(P P').

    step:         the distance between grid points, in nats.
    places:       int64 [m], losses in steps.
    log_weights:  [m], natural logarithms.
    gone:         P(P' = 0) and P'(P = 0).
    largest:      the largest loss of an output, from P to P' and from P' to P, exactly.
    moved, gap:   the most that any loss was moved, in nats, and the most that this adds to a figure.
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
        """Returns the same losses on a grid whose step is `factor` times as long."""
        step = self.step * factor
        losses = np.asarray(self.places * self.step, np.float64)
        places, log_weights, gap = _split(losses, self.log_weights, step)
        return replace(
            self, step=step, places=places, log_weights=log_weights, moved=self.moved + step, gap=self.gap + gap
        )


def unit_losses(first: Array, second: Array, step: float) -> UnitLosses:
    """Returns the losses between two laws [outputs], given as natural logarithms, on a grid of this step in nats."""
    gone, total = (0.0, 0.0), first + second
    if (common := np.isfinite(total)).all():
        losses = first - second
    else:
        gone = (_mass(first[np.isneginf(second)]), _mass(second[np.isneginf(first)]))
        losses, total = first[common] - second[common], total[common]
    if not len(losses):
        return UnitLosses(step, np.empty(0, np.int64), np.empty(0), gone, largest=(math.inf, math.inf))
    largest = (math.inf if gone[0] else float(losses.max()), math.inf if gone[1] else -float(losses.min()))
    places, log_weights, gap = _split(losses, total / 2, step)
    return UnitLosses(step, places, log_weights, gone, largest=largest, moved=step, gap=gap)


def loss_range(first: Array, second: Array) -> float:
    """Returns the largest finite |L| between two log-laws [outputs]; 0 if no output is possible under both."""
    with np.errstate(invalid="ignore"):
        loss = np.abs(first - second)
    return float(loss.max()) if np.isfinite(loss).all() else float(loss[np.isfinite(loss)].max(initial=0.0))


def _split(losses: Array, log_weights: Array, step: float) -> tuple[NDArray[np.int64], Array, float]:
    """Returns the grid points of losses [n] with log-weights [n], the points' log-weights, and the gap."""
    below = np.floor(losses / step)
    half = np.clip((losses - below * step) / 2, 0, step / 2)
    up, down = np.sinh(half) / math.sinh(step / 2), np.sinh(step / 2 - half) / math.sinh(step / 2)
    places, summed = _added(below.astype(np.int64), log_weights, down, up)
    return places, summed, 2 * math.sinh(step / 2) * float((up * down).max())


def _added(below: NDArray[np.int64], log_weights: Array, lower: Array, upper: Array) -> tuple[NDArray[np.int64], Array]:
    """Returns the distinct places, ascending, and ln of the sum of the weights at each.

    below: places [n], which get the share lower [n] of e^log_weights; the place after each gets the share upper [n].
    Where weights differ by more than a float's range, every place is summed in the scale of its own largest: in one for
    all, weights of e^-1000 would vanish, and sqrt(P P') is that small where P is nearly 1 and P' is e^-2000, if other
    outputs are likely under both.
    """
    first = int(below.min())
    size = int(below.max()) - first + 2
    if size <= _DENSE:
        places, at = first + np.arange(size), below - first
        after = at + 1
    else:
        places, both = np.unique(np.concatenate([below, below + 1]), return_inverse=True)
        at, after = np.split(both, 2)
    peaks = np.full(len(places), log_weights.max())
    if log_weights.min() >= peaks[0] - _ONE_SCALE:
        of_lower = of_upper = np.exp(log_weights - peaks[0])
    else:
        peaks[:] = -np.inf
        np.maximum.at(peaks, at, log_weights)
        np.maximum.at(peaks, after, log_weights)
        of_lower, of_upper = np.exp(log_weights - peaks[at]), np.exp(log_weights - peaks[after])
    summed = np.bincount(at, of_lower * lower, len(places)) + np.bincount(after, of_upper * upper, len(places))
    used = np.flatnonzero(summed)
    return places[used].astype(np.int64), np.log(summed[used]) + peaks[used]


def _mass(log_law: Array) -> float:
    return float(np.exp(log_law).sum())
