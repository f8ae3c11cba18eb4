"""The law of a mechanism at one pair of inputs, as far as it tells them apart. Losses are in nats.

Only the likelihood ratio of an output helps an adversary to tell the two inputs apart (Neyman and Pearson 1933), so
outputs are put into groups. A group is an event of the mechanism, with an exact probability. So the loss that the
groups show is never above the mechanism's; the smaller the groups, the closer it comes.
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

    first, other: [m] probabilities of the groups under either input.
    limit:        the largest loss of a single output, if it is larger than any group's (Gaussian tails: infinite).
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

        Groups are taken from the most telling on until their probability under the other input is `rate`; a part of the
        last one is taken.
        """
        order = np.argsort(-self.losses, kind="stable")
        false, true = np.cumsum(self.other[order]), np.cumsum(self.first[order])
        free = self.first[self.other == 0].sum()  # mass under the first input of groups that the other never gives
        return math.log(float(np.interp(rate, np.append(0.0, false), np.append(free, true))) / rate)

    def delta(self, epsilon: float) -> float:
        """Return the least delta with which epsilon holds in both directions: the larger hockey-stick divergence."""
        ratio = math.exp(epsilon)
        forward = np.maximum(self.first - ratio * self.other, 0).sum()
        return float(max(forward, np.maximum(self.other - ratio * self.first, 0).sum()))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that holds for the pair with this delta."""
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

    edges: [m], increasing. There are m + 1 groups: a cell between each two edges, and the two ends.
    """
    under_first, under_second = (np.diff(cdf(edges), prepend=0.0, append=1.0) for cdf in (first, other))
    return Law(np.maximum(under_first, 0), np.maximum(under_second, 0))


def together(*laws: Law, step: float) -> Law:
    """Return the law of independent outputs released together, with losses rounded to multiples of a step.

    The rounding only decides which outputs are in one group. The probabilities of a law may sum to less than one (for
    a part of a mechanism's outputs); no loss may be infinite.
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
    """Return the law that joins these laws as its parts; its outputs are all of theirs."""
    first, other = (np.concatenate([getattr(law, name) for law in laws]) for name in ("first", "other"))
    return Law(first, other, max(law.limit for law in laws))
