"""Densities and distribution functions of Laplace and exponential noise, and nodes for integrals over such noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epsilometer.studies.bench.law import Floats

_REACH = 45.0  # range beyond the outermost breaks, in scales of the widest noise; e^-45 of the mass lies outside
_NODES = 16  # nodes per piece of the range; a piece is at most as wide as the smallest scale


def laplace(y: Floats, scale: float) -> Floats:
    """Return the density of Laplace noise at y."""
    return np.exp(-np.abs(y) / scale) / (2 * scale)


def laplace_cdf(y: Floats, scale: float) -> Floats:
    """Return P(noise <= y) for Laplace noise."""
    tail = np.exp(-np.abs(y) / scale) / 2
    return np.where(y < 0, tail, 1 - tail)


def exponential_cdf(y: Floats, scale: float) -> Floats:
    """Return P(noise <= y) for exponential noise."""
    return -np.expm1(-np.maximum(y, 0) / scale)


def nodes(breaks: Sequence[float], scales: Sequence[float]) -> tuple[Floats, Floats]:
    """Return nodes [m] and weights [m] of Gauss-Legendre rules, for integrals over the real line.

    breaks: the points where a density has a kink. Pieces of the integration range end at these points.
    scales: the scales of all noises in the integrand.
    """
    reach = _REACH * max(scales)
    low, high = min(breaks) - reach, max(breaks) + reach
    steps = int(np.ceil((high - low) / min(scales)))
    edges = np.unique(np.concatenate([np.linspace(low, high, steps + 1), breaks]))
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    half, middle = np.diff(edges) / 2, (edges[:-1] + edges[1:]) / 2
    return (middle[:, None] + half[:, None] * at).ravel(), (half[:, None] * weight).ravel()
