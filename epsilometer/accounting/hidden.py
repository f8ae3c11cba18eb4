"""How well the other draws of an average hide one, under coins: a lower end for directional noise.

The upper end gives the example's coin away (`steps.py`). The release is an average, in which N - 1 other examples, each
with a coin of its own, hide whether this one is there and what it drew. A lower end needs one training in which that
much is lost. Here it is: in every step the example's gradient is v in the one data set and -v in the other, all others'
are one direction u at right angles to v. The adversary looks only at the component along v of the sum of draws,

    Y = b W + sum_j c_j T_j        against        Y = -b W + sum_j c_j T_j,

with coins b, c_j of chance q, W the cosine of a draw about v and T_j the component along v of a draw about u, of
density in proportion to (1 - t^2)^((d-3)/2) M_(d-1)(kappa sqrt(1 - t^2)). That is post-processing of the release, so
the epsilon of this pair is a lower end. Both laws are computed on a grid of a sixth of the narrowest deviation, by
FFT; each draw is rounded to it, which moves deviations by some 0.1 %. Cells of less than 1e-11 are counted with their
neighbours towards the ends, which is post-processing, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.interpolate import CubicSpline

from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.pairs import Atoms
from epsilometer.accounting.releases import VonMisesFisher
from epsilometer.accounting.schedule import Poisson
from epsilometer.accounting.steps import Step
from epsilometer.core.von_mises_fisher import angle_range, log_density, log_moment, mean_cosine, quadrature

Array = NDArray[np.float64]

_FINENESS = 6  # cells to the narrowest deviation
_LARGEST = 1 << 21  # cells
_LEAST = 1e-11  # of a cell, in probability
_REACH = 9.0  # deviations


def lower_end(release: VonMisesFisher, schedule: Poisson, delta: float) -> float:
    """Returns an epsilon that the training loses at least, at delta, where one example is replaced; 0 where unknown.

    Of a release in parts, what the best single part shows. Parts of two numbers are left out.
    """
    ends = [0.0]
    for dimension in sorted({d for d in release.dimensions if d > 2}):
        pair = pair_along(release.kappa, dimension, schedule)
        if pair is not None:
            ends.append(bracket([Step((pair,))], schedule.steps, delta).lower)
    return max(ends)


def pair_along(kappa: float, dimension: int, schedule: Poisson) -> Atoms | None:
    """Returns the losses of one step along v; None where the grid would be too long."""
    rate, others = float(schedule.rate), schedule.texts - 1
    cosine = mean_cosine(kappa, dimension)
    cosines, weights = quadrature(kappa, dimension)
    own = math.sqrt(float(weights @ (cosines - cosine) ** 2))
    aside = math.sqrt(cosine / kappa)
    step = min(own, aside) / _FINENESS
    furthest = cosine + _REACH * (own + math.sqrt(max(rate * others, 1)) * aside) + 3 * aside
    if 2 * furthest / step > _LARGEST:
        return None
    half = math.ceil(furthest / step)
    size = next_fast_len(2 * half + 1, real=True)
    hidden = (1 - rate + rate * rfft(_aside(kappa, dimension, step, size))) ** others
    shown = rfft(_own(kappa, dimension, step, size))
    first = irfft(hidden * (1 - rate + rate * shown), size)
    places = np.arange(-half, half + 1)
    return _atoms(first[places % size], first[-places % size])


def _atoms(first: Array, second: Array) -> Atoms:
    """The losses of two laws [cells], mirror images, after the ends were merged into their innermost cells."""
    certain = np.flatnonzero((first > _LEAST) & (second > _LEAST))
    low, high = int(certain[0]), int(certain[-1])
    laws = [np.maximum(law[low : high + 1], 0) for law in (first, second)]
    for law, whole in zip(laws, (first, second), strict=True):
        law[0] += max(float(whole[:low].sum()), 0)
        law[-1] += max(float(whole[high + 1 :].sum()), 0)
    seen = (laws[0] > _LEAST) & (laws[1] > _LEAST)  # cells between that are not are left out of both
    log_p, log_q = np.log(laws[0][seen]), np.log(laws[1][seen])
    order = np.argsort(log_p - log_q, kind="stable")
    return Atoms((log_p - log_q)[order], log_p[order])


def _own(kappa: float, dimension: int, step: float, size: int) -> Array:
    """The law of W on the circular grid, by the masses of its cells."""
    low, high = angle_range(kappa, dimension)
    ends = max(math.cos(high), -1 + 1e-12), min(math.cos(low), 1 - 1e-12)
    return _cells(lambda w: log_density(w, kappa, dimension), ends, step, size)


def _aside(kappa: float, dimension: int, step: float, size: int) -> Array:
    """The law of T on the circular grid."""
    reach = min(_REACH * math.sqrt(mean_cosine(kappa, dimension) / kappa), 1 - 1e-9)
    knots = np.linspace(-reach, reach, 401)
    roots = np.sqrt(1 - knots**2)
    logs = (dimension - 3) / 2 * np.log1p(-(knots**2)) + [log_moment(kappa * r, dimension - 1) for r in roots.tolist()]
    return _cells(CubicSpline(knots, logs - logs.max()), (-reach, reach), step, size)


def _cells(log_law: object, ends: tuple[float, float], step: float, size: int) -> Array:
    """Masses of the cells about multiples of `step`, place 0 first and negative ones from the end, summing to 1."""
    first, last = round(ends[0] / step), round(ends[1] / step)
    nodes, weights = np.polynomial.legendre.leggauss(3)
    cells = np.arange(first, last + 1)
    at = (cells[:, None] + nodes / 2) * step
    inside = (at > ends[0]) & (at < ends[1])
    logs = np.where(inside, log_law(np.clip(at, *ends)), -np.inf)  # type: ignore[operator]
    masses = np.exp(logs - logs.max()) @ weights
    law = np.zeros(size)
    np.add.at(law, cells % size, masses / masses.sum())
    return law
