"""Upper bounds on the losses of pairs of texts that are computed from drawn directions (von Mises-Fisher law).

A draw y around the direction u with concentration kappa, compared with a draw around u' with kappa', has the loss

    L = (kappa u - kappa' u')'y - ln M(kappa) + ln M(kappa'),

with M as in `core/von_mises_fisher.py`. L is linear in y, so it depends only on the component t of y along kappa u -
kappa' u'. `core/von_mises_fisher.py` computes the density of t. The extremes of L, at t = -1 and t = 1, have closed
forms. For equal concentrations L is kappa |u - u'| t, and the total variation is 2 P(t > 0) - 1.

The density is evaluated at the nodes of a quadrature that covers all angles at which either law is within 60 nats of
its mode. Both laws then become discrete. Their losses are put on a grid and convolved over the units, as for other laws
(`products.py`). The quadrature's relative error is about 1e-10; the brackets do not include it.

The text is computed from the draws alone, so the losses of the text are at most the losses of the draws. Units that
both texts share have no loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.convolution.grid import UnitLosses, unit_losses
from epsilometer.auditing.exact_loss.by_laws import PairFigures
from epsilometer.auditing.exact_loss.losses import PairLosses, Request
from epsilometer.auditing.exact_loss.products import Product
from epsilometer.core.mechanism import Directions, Mechanism, TurnsVectors
from epsilometer.core.von_mises_fisher import component_moments, log_component_density, log_moment

Array = NDArray[np.float64]
_DROP = 60.0  # nats below the mode at which a density is cut off
_FAR = 160  # the cut-off is searched within this many standard deviations of the mean
_SCANNED = 4000  # number of points searched
_PANELS, _MOST, _NODES = 64, 4096, 16
_POINTS = 512  # fewest grid points between a loss of 0 and a unit's largest loss
_ALIKE = 1e-12  # two laws count as equal if |kappa u - kappa' u'| is at most this share of the larger kappa


def applies(mechanism: Mechanism) -> bool:
    """Return True if a mechanism draws directions and computes the text from the draws."""
    return isinstance(mechanism, TurnsVectors)


def losses(request: Request) -> list[PairLosses]:
    """Return the losses of the draws for every pair, one `PairLosses` per budget."""
    mechanism = cast(TurnsVectors, request.mechanism)
    results = []
    for epsilon, claims in zip(request.epsilons, request.claims, strict=True):
        directions = mechanism.directions(request.texts, epsilon)
        figures = PairFigures(len(request.pairs))
        for place, (pair, claim) in enumerate(zip(request.pairs, claims.tolist(), strict=True)):
            first, second = (directions.rows.row(int(text)) for text in pair)
            if len(first) == len(second):
                units = np.stack([first, second], axis=1)[first != second]
                figures.enter(place, product(directions, units, request.width), claim)
        results.append(figures.losses())
    return results


def product(directions: Directions, units: NDArray[np.integer], width: float = 0.02) -> Product:
    """Return the laws of two texts, each as a product of unit laws. units: [n, 2], rows of `directions`."""
    bounds = [largest_losses(directions, a, b) for a, b in units.tolist()]
    most = max((max(ends) for ends in bounds), default=0.0)
    step = most / max(_POINTS, math.ceil(most * len(units) / math.sqrt(4 * width))) or 1.0
    return Product([direction_losses(directions, a, b, step) for a, b in units.tolist()])


def largest_losses(directions: Directions, first: int, second: int) -> tuple[float, float]:
    """Return the largest losses, in nats, of a draw around the first direction against the second, and vice versa."""
    _, length, offset = _difference(directions, first, second)
    return max(length + offset, 0.0), max(length - offset, 0.0)


def direction_losses(directions: Directions, first: int, second: int, step: float) -> UnitLosses:
    """Return the losses of a draw around the first direction against the second, on a grid with this step in nats."""
    axis, length, offset = _difference(directions, first, second)
    largest = largest_losses(directions, first, second)
    kappas, dimension = directions.concentrations[[first, second]], directions.units.shape[1]
    if length <= _ALIKE * kappas.max():
        return unit_losses(np.zeros(1), np.zeros(1), step)
    cosines = np.clip(directions.units[[first, second]] @ axis, -1, 1)
    angles, weights = _nodes(cosines, kappas, dimension)
    law = log_component_density(angles, float(cosines[0]), float(kappas[0]), dimension) + np.log(weights)
    on_grid = unit_losses(law, law - length * np.cos(angles) - offset, step)
    return replace(on_grid, largest=largest)


def _difference(directions: Directions, first: int, second: int) -> tuple[Array, float, float]:
    """Return the direction [d] of kappa u - kappa' u', its length, and ln M(kappa') - ln M(kappa)."""
    units, kappas = directions.units, directions.concentrations
    dimension = units.shape[1]
    vector = kappas[first] * units[first] - kappas[second] * units[second]
    length = float(np.linalg.norm(vector))
    offset = 0.0
    if kappas[first] != kappas[second]:
        offset = log_moment(float(kappas[second]), dimension) - log_moment(float(kappas[first]), dimension)
    return vector / (length or 1.0), length, offset


def _nodes(cosines: Array, kappas: Array, dimension: int) -> tuple[Array, Array]:
    """Return angles [n] and weights [n] of a quadrature over the angle that covers both laws."""
    ranges, widths = [], []
    for cosine, kappa in zip(cosines.tolist(), kappas.tolist(), strict=True):
        mean, deviation = component_moments(cosine, kappa, dimension)
        ends = [math.acos(min(max(mean + side * _FAR * deviation, -1.0), 1.0)) for side in (1, -1)]
        scanned = np.linspace(ends[0], ends[1], _SCANNED + 2)[1:-1]
        logs = log_component_density(scanned, cosine, kappa, dimension)
        inside = np.flatnonzero(logs > logs.max() - _DROP)
        gap = scanned[1] - scanned[0]
        ranges += [max(scanned[inside[0]] - gap, ends[0]), min(scanned[inside[-1]] + gap, ends[1])]
        widths.append((inside[-1] - inside[0] + 1) * gap)
    low, high = min(ranges), max(ranges)
    panels = min(max(_PANELS, math.ceil(_PANELS * (high - low) / min(widths))), _MOST)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(low, high, panels + 1)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()
