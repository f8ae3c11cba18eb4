"""The losses of a pair of laws, and the mass of each loss, by Gauss-Legendre quadrature over the pair's coordinate.

The width of a panel is a fraction of the density's scale. If losses are put on a grid afterwards, panels are also
divided where the loss equals a grid point, so that the integrand has no kink inside a panel. Errors are about 1e-12 of
the mass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.dominating_pairs import Atoms, Pair

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_PANELS = 16  # panels per `scale` of a density, for errors of about 1e-12
_CHUNK = 1 << 16  # panels at a time


def quadrature(
    pair: Pair, spans: Iterable[tuple[float, float]], h: float | None
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield coordinates, losses and log-masses [n] over spans. h: the step of the grid of losses, or None."""
    for low, high in spans:
        panels = math.ceil((high - low) / pair.scale * _PANELS)
        edges = np.linspace(low, high, panels + 1)
        halved = high - (high - low) / panels * 0.5 ** np.arange(1, 40)  # a tilt may move all mass to `high`
        edges = np.unique(np.concatenate([edges, halved]))
        if h is None:
            yield _atoms(pair, edges)
            continue
        ends = pair.loss(edges[[0, -1]]) / h
        first, last = math.ceil(ends[0]), math.floor(ends[1])
        for start in range(first, last + 1, _CHUNK):
            cut = pair.place(np.arange(start, min(start + _CHUNK, last + 1)) * h)
            cut = cut[(cut > low) & (cut < high)]
            until = high if start + _CHUNK > last else float(pair.place(np.array([(start + _CHUNK - 1) * h]))[0])
            here = np.union1d(np.concatenate([[low], cut, [until]]), edges[(edges > low) & (edges < until)])
            yield _atoms(pair, here)
            low = until
        if first > last:
            yield _atoms(pair, edges)


def _atoms(pair: Pair, edges: Array) -> tuple[Array, Array, Array]:
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (_NODES + 1)).ravel()
    with np.errstate(divide="ignore"):
        return x, pair.loss(x), pair.log_density(x) + np.log(half * _WEIGHTS).ravel()


def whole(pair: Pair | Atoms, tail: float) -> tuple[Array, Array, Array]:
    """Return coordinates, losses and log-masses of a pair, each [n], in ascending order."""
    if isinstance(pair, Atoms):
        return pair.losses, pair.losses, pair.log_masses
    places, losses, logs = zip(*quadrature(pair, pair.spans(tail), None), strict=True)
    return np.concatenate(places), np.concatenate(losses), np.concatenate(logs)
