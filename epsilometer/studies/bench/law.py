"""The law of a mechanism at one pair of inputs, by groups of outputs. Losses are in nats.

Only the likelihood ratio of an output helps an adversary to distinguish the two inputs (Neyman and Pearson 1933). So
outputs of similar ratio can share a group. A group is an event with an exact probability. The loss computed from groups
is therefore a lower bound on the mechanism's loss; smaller groups make it tighter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]
Inputs = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Law:
    """The law of groups of outputs under two inputs.

    first, other: [m], the probabilities of the groups under the first and the other input.
    limit:        the largest absolute loss of a single output, if larger than the loss of every group (infinite for
                  Gaussian noise); otherwise 0.
    parts:        the laws of independent parts of the output, if it has such parts.
    """

    first: Floats
    other: Floats
    limit: float = 0.0
    parts: tuple[Law, ...] = ()

    @cached_property
    def losses(self) -> Floats:
        """The [m] losses ln P(group | first) / P(group | other); 0 for groups that never occur."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.first == self.other, 0.0, np.log(self.first) - np.log(self.other))

    @property
    def pure(self) -> float:
        """The pure loss of the pair: the largest absolute loss of any output."""
        return max(self.limit, float(np.abs(self.losses).max()))

    @property
    def error(self) -> float:
        """The error of the best adversary between two equally likely inputs: (1 - total variation) / 2."""
        return float(np.minimum(self.first, self.other).sum()) / 2

    def at_rate(self, rate: float) -> float:
        """Return ln(TPR / FPR) of the best test with false-positive rate `rate`, where positive is the first input.

        The test says positive for the groups of largest loss, up to probability `rate` under the other input. The last
        group counts in part, so that the rate is met exactly.
        """
        order = np.argsort(-self.losses, kind="stable")
        false, true = np.cumsum(self.other[order]), np.cumsum(self.first[order])
        free = self.first[self.other == 0].sum()  # true-positive rate at a false-positive rate of 0
        return math.log(float(np.interp(rate, np.append(0.0, false), np.append(free, true))) / rate)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta valid with epsilon in both directions: the larger hockey-stick divergence."""
        ratio = math.exp(epsilon)
        forward = np.maximum(self.first - ratio * self.other, 0).sum()
        return float(max(forward, np.maximum(self.other - ratio * self.first, 0).sum()))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon valid for the pair at this delta; infinite if it exceeds 512."""
        if delta == 0:
            return self.pure
        if self.delta(0.0) <= delta:
            return 0.0
        high = 1.0
        while self.delta(high) > delta:
            if high > 500:
                return math.inf
            high *= 2
        return float(brentq(lambda epsilon: self.delta(epsilon) - delta, 0.0, high, xtol=1e-12))


def cells(edges: Floats, first: Callable[[Floats], Floats], other: Callable[[Floats], Floats]) -> Law:
    """Return the law of a number from its distribution functions under the two inputs.

    edges: [m], increasing. There are m + 1 groups: the intervals between edges, and the two unbounded ends.
    """
    under_first, under_second = (np.diff(cdf(edges), prepend=0.0, append=1.0) for cdf in (first, other))
    return Law(np.maximum(under_first, 0), np.maximum(under_second, 0))


def together(*laws: Law, step: float) -> Law:
    """Return the law of independent outputs released together.

    Outputs whose losses round to the same multiple of `step` share a group. The probabilities of a law may sum to less
    than one, if it covers a part of a mechanism's outputs. All losses must be finite.
    """
    of_first, of_second, low = np.ones(1), np.ones(1), 0
    for law in laws:
        places = np.rint(law.losses / step).astype(np.int64)
        start, size = int(places.min()), int(np.ptp(places)) + 1
        of_first = np.convolve(of_first, np.bincount(places - start, law.first, size))
        of_second = np.convolve(of_second, np.bincount(places - start, law.other, size))
        low += start
    limit = max(sum(float(law.losses.max()) for law in laws), -sum(float(law.losses.min()) for law in laws))
    return Law(of_first, of_second, limit, parts=laws)


def either(*laws: Law) -> Law:
    """Return the law of a mechanism from laws that each cover a part of its outputs. The parts must not overlap."""
    first, other = (np.concatenate([getattr(law, name) for law in laws]) for name in ("first", "other"))
    return Law(first, other, max(law.limit for law in laws))
