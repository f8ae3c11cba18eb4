"""Report noisy max, in correct and broken variants (Ding, Wang, Wang, Zhang and Kifer, CCS 2018, algorithms 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench.densities import exponential_cdf, laplace_cdf, nodes
from epsilometer.studies.bench.densities import laplace as laplace_density
from epsilometer.studies.bench.known import KnownMechanism, table
from epsilometer.studies.bench.law import Floats, Inputs, Law, cells

EPSILON = 0.1
SCALE = 2 / EPSILON
_ORIGIN = "Ding et al., CCS 2018, algorithm {}"


def _exponential(y: Floats, scale: float) -> Floats:
    return np.where(y >= 0, np.exp(-np.maximum(y, 0) / scale) / scale, 0.0)


def _noise(name: str) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
    """Return the density and the distribution function of noise `name`: "laplace" or "exponential"."""
    if name == "laplace":
        return partial(laplace_density, scale=SCALE), partial(laplace_cdf, scale=SCALE)
    return partial(_exponential, scale=SCALE), partial(exponential_cdf, scale=SCALE)


def _draws(inputs: Inputs, noise: str, summary: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    queries = np.array(inputs, np.float64)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[Any]:
        return summary(queries[which] + getattr(rng, noise)(scale=SCALE, size=(count, queries.shape[1])), axis=1)

    return draw


def place(name: str, number: int, inputs: Inputs, noise: str) -> KnownMechanism:
    """Return the mechanism that releases the index of the largest noisy answer."""
    density, cdf = _noise(noise)

    def chances(queries: Sequence[float]) -> Floats:
        y, weight = nodes(sorted({*inputs[0], *inputs[1]}), [SCALE])
        below = np.array([cdf(y - x) for x in queries])
        others = [np.prod(np.delete(below, i, axis=0), axis=0) for i in range(len(queries))]
        return np.array([weight @ (density(y - x) * rest) for x, rest in zip(queries, others, strict=True)])

    @cache
    def law() -> Law:
        return Law(chances(inputs[0]), chances(inputs[1]))

    draw = _draws(inputs, noise, np.argmax)
    return KnownMechanism(name, _ORIGIN.format(number), draw, lambda y: table(law().losses)(y), law=law, claim=EPSILON)


def value(name: str, number: int, inputs: tuple[float, float], noise: str) -> KnownMechanism:
    """Return the mechanism that breaks its claim by releasing the value of the largest of five noisy answers.

    inputs: the true answer under the first and under the other input; all five queries have the same answer.
    """
    density, cdf = _noise(noise)

    def loss(y: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.log(density(y - x)) + 4 * np.log(cdf(y - x)) for x in inputs]
            return np.where(np.isneginf(logs[1]), np.inf, logs[0] - logs[1])

    @cache
    def law() -> Law:
        edges = np.linspace(-200, 400, 60_001)  # edges at the kinks of the densities
        return cells(edges, lambda y: cdf(y - inputs[0]) ** 5, lambda y: cdf(y - inputs[1]) ** 5)

    repeated = ([inputs[0]] * 5, [inputs[1]] * 5)
    return KnownMechanism(name, _ORIGIN.format(number), _draws(repeated, noise, np.max), loss, law=law, claim=EPSILON)
