"""Faulty private averages: they reveal how many numbers were averaged (DP-Auditorium; arXiv:2509.07055, section 5).

The two inputs are the lists (0) and (0, 1). The average gets noise of scale 2 / (n epsilon), which would be private if
the count n were public. The noisy count is max(1e-12, n + Laplace(2 / epsilon)). All three variants reveal something
about the count, so their loss exceeds epsilon.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import ndtr

from epsilometer.studies.bench.densities import laplace_cdf
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.law import Floats, Law, cells

_COUNTS, _MEANS = (1, 2), (0.0, 0.5)
_LEAST = 1e-12  # the minimum of a noisy count
_ORIGIN = "arXiv:2509.07055, google-research/dp_sequential_test"


def true_count(name: str, epsilon: float, noise: Literal["laplace", "normal"]) -> KnownMechanism:
    """Return NonDPLaplace1 or NonDPGaussian1. Average and noise scale both use the true count."""
    scales = [2 / (n * epsilon) for n in _COUNTS]

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        return np.asarray(getattr(rng, noise)(_MEANS[which], scales[which], count))

    def loss(y: Floats) -> Floats:
        away = [np.abs(y - mean) / scale for mean, scale in zip(_MEANS, scales, strict=True)]
        size = [distance if noise == "laplace" else distance**2 / 2 for distance in away]
        return np.asarray(size[1] - size[0] + math.log(scales[1] / scales[0]))

    def cdf(which: int, y: Floats) -> Floats:
        away = (y - _MEANS[which]) / scales[which]
        return np.asarray(ndtr(away) if noise == "normal" else laplace_cdf(away, 1.0))

    @cache
    def law() -> Law:
        edges = np.linspace(-40 * scales[0], 40 * scales[0], 80_001)
        inner = cells(edges, lambda y: cdf(0, y), lambda y: cdf(1, y))
        return Law(inner.first, inner.other, limit=math.inf)

    return KnownMechanism(f"{name} epsilon={epsilon:g}", _ORIGIN, draw, loss, law=law, claim=epsilon)


def noisy_scale(epsilon: float) -> KnownMechanism:
    """Return NonDPLaplace2. The average uses the true count, the noise scale uses the noisy count."""

    def draw(which: int, count: int, rng: np.random.Generator) -> Floats:
        n = np.maximum(_LEAST, _COUNTS[which] + rng.laplace(scale=2 / epsilon, size=count))
        return _MEANS[which] + rng.laplace(scale=2 / (n * epsilon))

    def cdf(which: int, y: Floats) -> Floats:
        return np.asarray(_tail(y - _MEANS[which], _COUNTS[which], epsilon))

    def density(which: int, y: Floats) -> Floats:
        return _density(np.abs(y - _MEANS[which]), _COUNTS[which], epsilon)

    @cache
    def law() -> Law:
        edges = np.sinh(np.linspace(-1, 1, 60_001) * math.asinh(2e13 / epsilon))  # covers noise at the minimum count
        return cells(edges, lambda y: cdf(0, y), lambda y: cdf(1, y))

    def loss(y: Floats) -> Floats:
        return np.log(density(0, y)) - np.log(density(1, y))

    return KnownMechanism(f"NonDPLaplace2 epsilon={epsilon:g}", _ORIGIN, draw, loss, law=law, claim=epsilon)


def _tail(z: Floats, n: int, epsilon: float) -> Floats:
    """Return P(noise <= z) for Laplace noise whose scale uses a noisy count of n.

    The probability is an integral over the noisy count, in closed form.
    """
    c = epsilon / 2
    a = np.abs(z) * c
    inside = n * math.exp(-c * n) * _exprel((c - a) * n) + np.exp(-a * n) / (c + a)
    above = c / 4 * inside + math.exp(-c * n) / 4 * np.exp(-a * _LEAST)
    return np.where(z < 0, above, 1 - above)


def _density(size: Floats, n: int, epsilon: float) -> Floats:
    """Return the density of Laplace noise whose scale uses a noisy count of n, at values of absolute value `size`."""
    c = epsilon / 2
    a = size * c
    u = (c - a) * n
    near = np.abs(u) < 1e-3
    safe = np.where(near, 1, u)
    part = np.where(near, 1 / 2 + u / 3 + u**2 / 8, (np.exp(u) * (u - 1) + 1) / safe**2)
    inside = n**2 * math.exp(-c * n) * part + np.exp(-a * n) * (n / (c + a) + 1 / (c + a) ** 2)
    return np.asarray(c * (c / 4 * inside + math.exp(-c * n) / 4 * _LEAST * np.exp(-a * _LEAST)))


def _exprel(u: Floats) -> Floats:
    """Return (e^u - 1) / u, which is 1 at u = 0."""
    return np.where(u == 0, 1, np.expm1(u) / np.where(u == 0, 1, u))
