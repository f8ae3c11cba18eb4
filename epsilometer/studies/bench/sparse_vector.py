"""Variants of the sparse vector technique that answer yes or no (Lyu, Su and Li, VLDB 2017, algorithms 1, 2, 4, 5, 6).

Ten queries are compared with a noisy threshold, one after another. Each answer (above or below) is released, until
`stop` queries were above. Given the noise of the threshold, the answers are independent, so every probability is an
integral over this noise. A query above the threshold is a "yes"; its place is the query's index, 0 to 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.studies.bench.densities import laplace, laplace_cdf, nodes
from epsilometer.studies.bench.known import KnownMechanism, table
from epsilometer.studies.bench.law import Floats, Inputs, Law

EPSILON = 0.1
QUERIES = 10
_ORIGIN = "Lyu, Su and Li, VLDB 2017, algorithm {}"


@dataclass(frozen=True)
class Threshold:
    """A noisy threshold.

    level: the number that queries are compared with.
    scale: the scale of the threshold's Laplace noise.
    noise: the scale of each query's Laplace noise.
    stop:  the number of yeses after which no more queries are answered.
    """

    level: float
    scale: float
    noise: float
    stop: int = 1

    def above(self, queries: Sequence[float], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return bool [n, 10]: whether each query is above the noisy threshold, without stopping."""
        noisy = np.asarray(queries) + rng.laplace(scale=self.noise, size=(count, QUERIES))
        return noisy >= self.level + rng.laplace(scale=self.scale, size=(count, 1))

    def nodes(self, queries: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return nodes [m] of the threshold's noise, their probabilities [m], and each query's P(below) [10, m]."""
        at, weight = nodes(sorted({0.0, *(x - self.level for x in queries)}), [self.scale, self.noise])
        below = laplace_cdf(at + self.level - np.asarray(queries)[:, None], self.noise)
        return at, weight * laplace(at, self.scale), below

    def chances(self, queries: Sequence[float]) -> Floats:
        """Return the probabilities [m] of all possible releases, in the order of `places`."""
        _, mass, below = self.nodes(queries)
        return np.array([mass @ answered(below, yes, self.stop) for yes in places(self.stop)])


def places(stop: int) -> Iterator[tuple[int, ...]]:
    """Yield the places of the yeses of every possible release, which has at most `stop` yeses."""
    for size in range(stop + 1):
        yield from combinations(range(QUERIES), size)


def answered(below: Floats, yes: tuple[int, ...], stop: int) -> Floats:
    """Return the probabilities [m] of one release, at each node of the threshold's noise.

    below: [10, m], P(query below the threshold); yes: the places of the release's yeses. No query is answered after
    `stop` yeses.
    """
    last = yes[-1] + 1 if len(yes) == stop else QUERIES
    no = [i for i in range(last) if i not in yes]
    return np.asarray(np.prod(below[no], axis=0) * np.prod(1 - below[list(yes)], axis=0))


def numbered(above: NDArray[np.bool_], stop: int) -> NDArray[np.int64]:
    """Return the number [n] of each release in the order of `places`. above: bool [n, 10], from `Threshold.above`."""
    shown = above & (np.cumsum(above, axis=1) <= stop)
    codes = np.array([sum(1 << i for i in yes) for yes in places(stop)])
    order = np.argsort(codes)
    return order[np.searchsorted(codes[order], shown @ (1 << np.arange(QUERIES)))]


def stopping(name: str, number: int, inputs: Inputs, threshold: Threshold) -> KnownMechanism:
    """Return algorithm `number`: 1, 2 or 4. With stop = 1, the algorithms differ only in `threshold`."""

    @cache
    def law() -> Law:
        return Law(threshold.chances(inputs[0]), threshold.chances(inputs[1]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return numbered(threshold.above(inputs[which], count, rng), threshold.stop)

    return KnownMechanism(name, _ORIGIN.format(number), draw, lambda y: table(law().losses)(y), law=law, claim=EPSILON)


def noiseless(name: str, inputs: Inputs) -> KnownMechanism:
    """Return algorithm 5, which never stops. Only the threshold has noise, so one draw decides all answers."""
    level, scale = 1.0, 2 / EPSILON
    values = np.unique(np.concatenate(inputs))
    edges = np.append(values - level, np.inf)

    def answers(queries: Sequence[float]) -> NDArray[np.int64]:
        """Return [m] integers, one per interval between edges, whose bits are the answers to all queries.

        The edges are the values of the threshold's noise at which an answer changes.
        """
        middle = np.concatenate([[edges[0] - 1], edges[:-1] + 0.5])
        return (np.asarray(queries) >= middle[:, None] + level) @ (1 << np.arange(QUERIES))

    mass = np.diff(laplace_cdf(edges, scale), prepend=0.0)
    codes = np.unique(np.concatenate([answers(queries) for queries in inputs]))
    first, other = ((answers(queries) == codes[:, None]) @ mass for queries in inputs)
    law = Law(first, other)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        above = np.asarray(inputs[which]) >= level + rng.laplace(scale=scale, size=(count, 1))
        return np.searchsorted(codes, above @ (1 << np.arange(QUERIES)))

    return KnownMechanism(name, _ORIGIN.format(5), draw, table(law.losses), law=lambda: law, claim=EPSILON)


def endless(name: str, inputs: Inputs, threshold: Threshold) -> KnownMechanism:
    """Return algorithm 6, which never stops.

    The first five queries must have the same true answer, and so must the last five.
    """
    half = QUERIES // 2

    @cache
    def law() -> Law:
        return Law(chances(inputs[0]).ravel(), chances(inputs[1]).ravel())

    def chances(queries: Sequence[float]) -> Floats:
        """Return the joint probabilities [6, 6] of the numbers of yeses in the first and in the second half."""
        _, mass, below = threshold.nodes(queries)
        counts = np.arange(half + 1)[:, None]
        low, high = binom.pmf(counts, half, 1 - below[0]), binom.pmf(counts, half, 1 - below[-1])
        return np.asarray(low * mass @ high.T)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return threshold.above(inputs[which], count, rng)

    def loss(outputs: NDArray[np.bool_]) -> Floats:
        return law().losses[outputs[:, :half].sum(axis=1) * (half + 1) + outputs[:, half:].sum(axis=1)]

    return KnownMechanism(name, _ORIGIN.format(6), draw, loss, law=law, claim=EPSILON)
