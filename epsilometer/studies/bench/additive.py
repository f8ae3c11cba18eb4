"""Laplace and Gaussian noise added to one or several numbers; the noisy numbers or their running sums are released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
from scipy.special import ndtr

from epsilometer.studies.bench.densities import laplace_cdf
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.law import Floats, Law, cells, together

_CELLS = 4000  # groups of outputs between the two inputs; elsewhere, the loss of Laplace noise is constant


def laplace_law(shift: float, scale: float) -> Law:
    """Return the law of Laplace noise added to 0 or to `shift`.

    Outside the range between these two inputs, the absolute loss is constant: |shift| / scale.
    """
    edges = np.linspace(min(0, shift), max(0, shift), _CELLS + 1)
    return cells(edges, partial(laplace_cdf, scale=scale), lambda y: laplace_cdf(y - shift, scale))


def laplace(
    name: str,
    origin: str,
    inputs: tuple[Sequence[float], Sequence[float]],
    scale: float,
    claim: float,
    sums: bool = False,
) -> KnownMechanism:
    """Return the mechanism that adds Laplace noise of one scale to each of d numbers.

    inputs: two lists [d]; sums: whether the running sums of the noisy numbers are released instead of the numbers.
    """
    centres = np.array(inputs, np.float64)
    shifts = (centres[1] - centres[0])[centres[0] != centres[1]]

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        noisy = centres[which] + rng.laplace(scale=scale, size=(count, centres.shape[1]))
        return np.cumsum(noisy, axis=1) if sums else noisy

    def loss(outputs: Floats) -> Floats:
        noisy = np.diff(outputs, axis=1, prepend=0) if sums else outputs
        return (np.abs(noisy - centres[1]) - np.abs(noisy - centres[0])).sum(axis=1) / scale

    @cache
    def law() -> Law:
        units = [laplace_law(shift, scale) for shift in shifts]
        return units[0] if len(units) == 1 else together(*units, step=abs(shifts[0]) / scale / 1000)

    return KnownMechanism(name, origin, draw, loss, law=law, claim=claim)


def gaussian(name: str, mu: float, delta: float) -> KnownMechanism:
    """Return the mechanism that adds Gaussian noise of standard deviation 1 to 0 or to mu.

    It claims the smallest epsilon that is valid at `delta` (Balle and Wang 2018).
    """

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        return rng.normal(mu * which, size=count)

    @cache
    def law() -> Law:
        inner = cells(np.linspace(-9, mu + 9, 20_001), ndtr, lambda y: ndtr(y - mu))
        return Law(inner.first, inner.other, limit=math.inf)

    claim = law().epsilon(delta)
    return KnownMechanism(
        name, "Balle and Wang, ICML 2018", draw, lambda y: mu * (mu / 2 - y), law=law, claim=claim, delta=delta
    )


def laplace_with_delta(name: str, epsilon: float, delta: float) -> KnownMechanism:
    """Return Laplace noise of scale 1 / epsilon.

    Its claim is the smallest epsilon that is valid at `delta`: the parameter `epsilon` plus 2 ln(1 - delta).
    """
    exact = laplace(name, "Dwork et al., TCC 2006", ([0], [1]), 1 / epsilon, claim=epsilon)
    return replace(exact, claim=epsilon + 2 * math.log1p(-delta), delta=delta)
