"""Variants of the sparse vector technique that answer yes or no (Lyu, Su and Li, VLDB 2017, algorithms 1, 2, 4, 5, 6).

Ten queries are compared with a threshold, one after another, and each answer is released until `stop` of them were
above. Given the noise of the threshold, the queries are independent, so every probability is an integral over one
number.
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

    level: the number that queries are compared with; scale: of its noise; noise: the scale of a query's noise; stop:
    the number of queries above after which no more are answered.
    """

    level: float
    scale: float
    noise: float
    stop: int = 1

    def above(self, queries: Sequence[float], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return bool [n, 10], which queries are above the noisy threshold, as if all of them were answered."""
        noisy = np.asarray(queries) + rng.laplace(scale=self.noise, size=(count, QUERIES))
        return noisy >= self.level + rng.laplace(scale=self.scale, size=(count, 1))

    def nodes(self, queries: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return nodes [m] of the threshold's noise, their probabilities [m], and each query's P(below) [10, m]."""
        at, weight = nodes(sorted({0.0, *(x - self.level for x in queries)}), [self.scale, self.noise])
        below = laplace_cdf(at + self.level - np.asarray(queries)[:, None], self.noise)
        return at, weight * laplace(at, self.scale), below

    def chances(self, queries: Sequence[float]) -> Floats:
        """Return the [m] probabilities of all possible answers, in the order of `places`."""
        _, mass, below = self.nodes(queries)
        return np.array([mass @ answered(below, yes, self.stop) for yes in places(self.stop)])


def places(stop: int) -> Iterator[tuple[int, ...]]:
    """Yield the places of the queries above, for all possible answers, which have at most `stop` of them."""
    for size in range(stop + 1):
        yield from combinations(range(QUERIES), size)


def answered(below: Floats, yes: tuple[int, ...], stop: int) -> Floats:
    """Return the [m] probabilities of these answers at each node; no query is asked after the last of `stop` yeses."""
    last = yes[-1] + 1 if len(yes) == stop else QUERIES
    no = [i for i in range(last) if i not in yes]
    return np.asarray(np.prod(below[no], axis=0) * np.prod(1 - below[list(yes)], axis=0))


def numbered(above: NDArray[np.bool_], stop: int) -> NDArray[np.int64]:
    """Return the [n] numbers in `places` of the released answers, from which queries are above, bool [n, 10]."""
    shown = above & (np.cumsum(above, axis=1) <= stop)
    codes = np.array([sum(1 << i for i in yes) for yes in places(stop)])
    order = np.argsort(codes)
    return order[np.searchsorted(codes[order], shown @ (1 << np.arange(QUERIES)))]


def stopping(name: str, number: int, inputs: Inputs, threshold: Threshold) -> KnownMechanism:
    """Return algorithm 1, 2 or 4. With one yes, the first two differ only in the settings of `threshold`."""

    @cache
    def law() -> Law:
        return Law(threshold.chances(inputs[0]), threshold.chances(inputs[1]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return numbered(threshold.above(inputs[which], count, rng), threshold.stop)

    return KnownMechanism(name, _ORIGIN.format(number), draw, lambda y: table(law().losses)(y), law=law, claim=EPSILON)


def noiseless(name: str, inputs: Inputs) -> KnownMechanism:
    """Return algorithm 5, whose queries have no noise: the threshold's noise alone decides, so few answers occur."""
    level, scale = 1.0, 2 / EPSILON
    values = np.unique(np.concatenate(inputs))
    edges = np.append(values - level, np.inf)

    def answers(queries: Sequence[float]) -> NDArray[np.int64]:
        """Return the queries above as bits, [m], for noise below the first edge, between the first two, and so on."""
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
    """Return algorithm 6, which never stops. The first five queries of an input are alike, and so are the last."""
    half = QUERIES // 2

    @cache
    def law() -> Law:
        return Law(chances(inputs[0]).ravel(), chances(inputs[1]).ravel())

    def chances(queries: Sequence[float]) -> Floats:
        """Return the [6, 6] probabilities of how many queries of each half are above."""
        _, mass, below = threshold.nodes(queries)
        counts = np.arange(half + 1)[:, None]
        low, high = binom.pmf(counts, half, 1 - below[0]), binom.pmf(counts, half, 1 - below[-1])
        return np.asarray(low * mass @ high.T)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return threshold.above(inputs[which], count, rng)

    def loss(outputs: NDArray[np.bool_]) -> Floats:
        return law().losses[outputs[:, :half].sum(axis=1) * (half + 1) + outputs[:, half:].sum(axis=1)]

    return KnownMechanism(name, _ORIGIN.format(6), draw, loss, law=law, claim=EPSILON)
