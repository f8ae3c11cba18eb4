"""Laplace and exponential noise, and nodes to integrate over a number to which it was added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_REACH = 45.0  # scales of the widest noise: what lies beyond has probability e^-45
_NODES = 16  # of a piece; a piece is as wide as the scale of the narrowest noise


def laplace(y: Floats, scale: float) -> Floats:
    """The density of Laplace noise."""
    return np.exp(-np.abs(y) / scale) / (2 * scale)


def laplace_cdf(y: Floats, scale: float) -> Floats:
    """P(noise <= y) for Laplace noise."""
    tail = np.exp(-np.abs(y) / scale) / 2
    return np.where(y < 0, tail, 1 - tail)


def exponential_cdf(y: Floats, scale: float) -> Floats:
    """P(noise <= y) for exponential noise."""
    return -np.expm1(-np.maximum(y, 0) / scale)


def nodes(breaks: Sequence[float], scales: Sequence[float]) -> tuple[Floats, Floats]:
    """Nodes and weights [m] of Gauss-Legendre rules between, and far beyond, the places where a density has a kink."""
    reach = _REACH * max(scales)
    low, high = min(breaks) - reach, max(breaks) + reach
    steps = int(np.ceil((high - low) / min(scales)))
    edges = np.unique(np.concatenate([np.linspace(low, high, steps + 1), breaks]))
    at, weight = np.polynomial.legendre.leggauss(_NODES)
    half, middle = np.diff(edges) / 2, (edges[:-1] + edges[1:]) / 2
    return (middle[:, None] + half[:, None] * at).ravel(), (half[:, None] * weight).ravel()
