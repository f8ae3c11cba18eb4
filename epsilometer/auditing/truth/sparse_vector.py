"""The sparse vector technique's variants that answer yes or no (Lyu, Su and Li, VLDB 2017, algorithms 1, 2, 4, 5, 6).

Ten queries, compared with a threshold; all are told which are above until `stop` were. Given the noise of the threshold
the queries are independent, so every probability is an integral over one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.auditing.truth.densities import laplace, laplace_cdf, nodes
from epsilometer.auditing.truth.known import Known, table
from epsilometer.auditing.truth.law import Floats, Law

EPSILON = 0.1
QUERIES = 10
_ORIGIN = "Lyu, Su and Li, VLDB 2017, algorithm {}"

Inputs = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Threshold:
    """level: what queries are compared with; scale: of its noise; noise: a query's scale; stop: after so many."""

    level: float
    scale: float
    noise: float
    stop: int = 1

    def above(self, queries: Sequence[float], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Returns [n, 10] which queries are above the noisy threshold, all of them answered."""
        noisy = np.asarray(queries) + rng.laplace(scale=self.noise, size=(count, QUERIES))
        return noisy >= self.level + rng.laplace(scale=self.scale, size=(count, 1))

    def nodes(self, queries: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Nodes of the threshold's noise, their probabilities, and of each query [10, m] P(below) at each."""
        at, weight = nodes(sorted({0.0, *(x - self.level for x in queries)}), [self.scale, self.noise])
        below = laplace_cdf(at + self.level - np.asarray(queries)[:, None], self.noise)
        return at, weight * laplace(at, self.scale), below

    def chances(self, queries: Sequence[float]) -> Floats:
        """[m] P(answers): the places of those above, as `places` lists them."""
        _, mass, below = self.nodes(queries)
        return np.array([mass @ answered(below, yes, self.stop) for yes in places(self.stop)])


def places(stop: int) -> Iterator[tuple[int, ...]]:
    """Yields the places of the queries above, for all answers that are possible: fewer than `stop` or just so many."""
    for size in range(stop + 1):
        yield from combinations(range(QUERIES), size)


def answered(below: Floats, yes: tuple[int, ...], stop: int) -> Floats:
    """[m] the probability of these answers at each node: after the last of `stop` yeses none is asked."""
    last = yes[-1] + 1 if len(yes) == stop else QUERIES
    no = [i for i in range(last) if i not in yes]
    return np.asarray(np.prod(below[no], axis=0) * np.prod(1 - below[list(yes)], axis=0))


def numbered(above: NDArray[np.bool_], stop: int) -> NDArray[np.int64]:
    """[n] the number in `places` of what comes out, from [n, 10] which queries are above."""
    shown = above & (np.cumsum(above, axis=1) <= stop)
    codes = np.array([sum(1 << i for i in yes) for yes in places(stop)])
    order = np.argsort(codes)
    return order[np.searchsorted(codes[order], shown @ (1 << np.arange(QUERIES)))]


def stopping(name: str, number: int, inputs: Inputs, threshold: Threshold) -> Known:
    """Algorithms 1, 2 and 4: at one yes the first two differ in nothing but what is set in `threshold`."""

    @cache
    def law() -> Law:
        return Law(threshold.chances(inputs[0]), threshold.chances(inputs[1]))

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return numbered(threshold.above(inputs[which], count, rng), threshold.stop)

    return Known(name, _ORIGIN.format(number), draw, lambda y: table(law().losses)(y), law=law, claim=EPSILON)


def noiseless(name: str, inputs: Inputs, level: float = 1.0) -> Known:
    """Algorithm 5: queries without noise. Which are above depends on the threshold's noise alone: a few answers."""
    scale = 2 / EPSILON
    values = np.unique(np.concatenate(inputs))
    edges = np.append(values - level, np.inf)

    def answers(queries: Sequence[float]) -> NDArray[np.int64]:
        """[m] the queries above as bits, where the noise is below the smallest edge, between two, and so on."""
        middle = np.concatenate([[edges[0] - 1], edges[:-1] + 0.5])
        return (np.asarray(queries) >= middle[:, None] + level) @ (1 << np.arange(QUERIES))

    mass = np.diff(laplace_cdf(edges, scale), prepend=0.0)
    codes = np.unique(np.concatenate([answers(queries) for queries in inputs]))
    first, other = ((answers(queries) == codes[:, None]) @ mass for queries in inputs)
    law = Law(first, other)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        above = np.asarray(inputs[which]) >= level + rng.laplace(scale=scale, size=(count, 1))
        return np.searchsorted(codes, above @ (1 << np.arange(QUERIES)))

    return Known(name, _ORIGIN.format(5), draw, table(law.losses), law=lambda: law, claim=EPSILON)


def endless(name: str, inputs: Inputs, threshold: Threshold) -> Known:
    """Algorithm 6: never stops. The first five queries of an input are alike, and so are the last five."""
    half = QUERIES // 2

    @cache
    def law() -> Law:
        return Law(chances(inputs[0]).ravel(), chances(inputs[1]).ravel())

    def chances(queries: Sequence[float]) -> Floats:
        """[6, 6] by how many of either half are above."""
        _, mass, below = threshold.nodes(queries)
        counts = np.arange(half + 1)[:, None]
        one, two = binom.pmf(counts, half, 1 - below[0]), binom.pmf(counts, half, 1 - below[-1])
        return np.asarray(one * mass @ two.T)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        return threshold.above(inputs[which], count, rng)

    def loss(outputs: NDArray[np.bool_]) -> Floats:
        return law().losses[outputs[:, :half].sum(axis=1) * (half + 1) + outputs[:, half:].sum(axis=1)]

    return Known(name, _ORIGIN.format(6), draw, loss, law=law, claim=EPSILON)
