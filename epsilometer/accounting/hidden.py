"""A lower bound on epsilon for directional noise with Poisson sampling, where other examples help to hide one example.

Each of N examples enters the batch with probability q, by its own coin. The upper bound (`steps.py`) assumes that the
adversary sees the coin of one example. In fact the release is an average. In it, the other N - 1 examples hide the coin
and the draw of the one example. For a lower bound, the loss of one pair of data sets is enough. In this pair, the
example's gradient is v in every step of one data set, and -v in every step of the other. The gradients of all other
examples are u, orthogonal to v. Two adversaries see the sum S of draws. Each adversary proves a lower bound.

**The first adversary uses the component Y of S along v** in every step,

    Y = b W + sum_j c_j T_j        against        Y = -b W + sum_j c_j T_j.

Here b and c_j are coins of probability q, W is the cosine of a draw about v, and T_j is the component along v of a draw
about u. The density of T_j is proportional to (1 - t^2)^((d-3)/2) M_(d-1)(kappa sqrt(1 - t^2)), where M_d = M is the
moment function of `core/von_mises_fisher.py` in R^d. Y is computed from the release, so the epsilon of this pair of
laws is a lower bound. The law of Y is computed as the masses of cells. Each cell is a sixth of the smallest standard
deviation wide. One FFT of the characteristic function (1 - q + q phi_W)(1 - q + q phi_T)^(N-1) of Y gives the masses,
so no draw is rounded. Quadrature gives phi_W and phi_T.

The empty batch gives the only atom of Y, whose mass is added separately. In few dimensions the characteristic function
may be above 1e-13 at the last frequency. Then normal noise is added to Y, which brings the function below 1e-13 there.
Truncating the function without this noise would reveal more than Y does. At both ends, cells with a mass below 1e-11
are merged with their neighbours. The noise and the merging are post-processing of Y, so the bound stays valid.

**The second adversary counts the steps that show the example.** If noise is small, the rarest outputs decide the loss,
and the first adversary loses these outputs by merging cells. A step shows the example if Y > t and S'u < B. The second
condition excludes large batches, which hide the example better. A draw V about mu has
E e^(l'V) = M(|kappa mu + l|) / M(kappa), so Chernoff's bound can be computed. Let P be the law of a step with gradient
v, and P' the law with gradient -v. For l, e >= 0:

    P'(shown) <= e^(-l t + e B) (1 - q + q M(|(l - kappa) v - e u|) / M(kappa))
                                (1 - q + q M(|l v + (kappa - e) u|) / M(kappa))^(N-1) = p'.

In the same way, Chernoff's bounds on P(Y <= t | b = 1) and P(S'u >= B | b = 1) add up to an upper bound on
1 - P(shown | b = 1). From this upper bound follows a number p with P(shown) >= p. The steps are independent. For any k,
the event that at least k of T steps show the example proves that

    epsilon >= ln (P(Bin(T, p) >= k) - delta) - ln (T choose k) - k ln p'.

The bounds of both adversaries hold up to floating-point errors. t, B, l, e and k are chosen for the largest bound. Any
other choice would be valid too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import binom

from epsilometer.accounting.dominating_pairs import Atoms
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import VonMisesFisher
from epsilometer.accounting.schedule import Poisson
from epsilometer.accounting.steps import Step
from epsilometer.core.von_mises_fisher import log_moment, mean_cosine, quadrature

Array = NDArray[np.float64]

_FINENESS = 6  # cells per smallest standard deviation
_LARGEST = 1 << 21  # most cells
_LEAST = 1e-11  # smallest probability of a cell
_REACH = 9.0  # standard deviations that grids and quadratures cover
_DECAY = 9.0  # largest frequency, in inverse deviations; a normal law's characteristic function is e^-40 there
_NODES = 400  # quadrature nodes for T
_GONE = 12.0  # at this many inverse deviations or more, a normal characteristic function counts as 0
_CUT_OFF = 1e-13  # largest value of a characteristic function at the frequency where it is truncated
_CHUNK = 1 << 10  # frequencies at a time
_NOTHING = 1e-17  # below this value, a characteristic function only falls, so no higher frequency is computed
_SHOWN_AT = np.linspace(0.3, 0.95, 14)  # values of t, as multiples of the mean cosine
_LARGE_AT = (1.5, 2.0, 3.0)  # values of B: standard deviations by which the batch size may exceed its mean


def lower_end(release: VonMisesFisher, schedule: Poisson, delta: float) -> float:
    """Return a lower bound on a training's epsilon at delta, with one example replaced; 0 if nothing is proved.

    If gradients are drawn in parts, the largest bound of any single part is returned. Parts with two dimensions are
    left out.
    """
    ends = [0.0]
    for dimension in sorted({d for d in release.dimensions if d > 2}):
        ends.append(by_shown_steps(release.kappa, dimension, schedule, delta))
        if ends[-1] > -math.log(_LEAST) * schedule.steps:  # the first adversary cannot prove more
            continue
        pair = pair_along(release.kappa, dimension, schedule)
        if pair is not None:
            ends.append(bracket([Step((pair,))], schedule.steps, delta).lower)
    return max(ends)


def pair_along(kappa: float, dimension: int, schedule: Poisson) -> Atoms | None:
    """Return the losses of one step for the first adversary (along v); None if the grid would be too long."""
    rate, others = float(schedule.rate), schedule.texts - 1
    cosine, aside = mean_cosine(kappa, dimension), math.sqrt(mean_cosine(kappa, dimension) / kappa)
    cosines, weights = quadrature(kappa, dimension)
    own = math.sqrt(float(weights @ (cosines - cosine) ** 2))
    step = min(own, aside) / _FINENESS
    furthest = cosine + _REACH * (own + math.sqrt(max(rate * others, 1)) * aside) + 3 * aside
    if 2 * furthest / step > _LARGEST:
        return None
    half = math.ceil(furthest / step)
    size = next_fast_len(2 * half + 1, real=True)
    frequencies = 2 * math.pi / (size * step) * np.arange(size // 2 + 1)
    frequencies = frequencies[frequencies < _DECAY / min(own, aside)]
    empty, beside, laws = (1 - rate) ** schedule.texts, _aside(kappa, dimension), []
    for part in (frequencies[i : i + _CHUNK] for i in range(0, len(frequencies), _CHUNK)):
        other = _characteristic(part, *beside).real
        if _REACH * aside < 1:  # here quadrature fails; T is nearly normal, so at most e^-72 is lost
            other[part * aside > _GONE] = 0
        hidden = (1 - rate + rate * other) ** others
        laws.append(hidden * (1 - rate + rate * _characteristic(part, cosines, weights)) - empty)
        if np.abs(hidden).max() < _NOTHING:
            break
    law = np.concatenate(laws)
    frequencies = frequencies[: len(law)]
    left = float(np.abs(law[-3:]).max())
    if left > _CUT_OFF:
        law = law * np.exp(-math.log(left / _CUT_OFF) * (frequencies / frequencies[-3]) ** 2)
    masses = irfft(np.pad(law * np.sinc(frequencies * step / (2 * math.pi)), (0, size // 2 + 1 - len(law))), size)
    masses[0] += empty
    places = np.arange(-half, half + 1)
    return _atoms(masses[places % size], masses[-places % size])


def by_shown_steps(kappa: float, dimension: int, schedule: Poisson, delta: float) -> float:
    """Return the second adversary's lower bound at delta, from counting shown steps; 0 if it proves nothing."""
    cosine, best = mean_cosine(kappa, dimension), 0.0
    for seen, deviations in product(_SHOWN_AT.tolist(), _LARGE_AT):
        there, absent = chances(kappa, dimension, schedule, threshold=cosine * seen, deviations=deviations)
        k = np.arange(1, schedule.steps + 1)
        with np.errstate(divide="ignore"):
            gained = np.log(np.maximum(binom.sf(k - 1, schedule.steps, there) - delta, 0))
        ways = gammaln(schedule.steps + 1) - gammaln(k + 1) - gammaln(schedule.steps - k + 1)
        best = max(best, float((gained - np.minimum(ways + k * absent, 0)).max()))
    return best


def chances(
    kappa: float, dimension: int, schedule: Poisson, *, threshold: float, deviations: float
) -> tuple[float, float]:
    """Return p and ln p', from bounds on the probability that a step shows the example.

    p is a lower bound for the first data set, and p' an upper bound for the second. threshold: t. deviations: the
    number of standard deviations by which the batch size may exceed its mean; this number determines B.
    """
    rate, others = float(schedule.rate), schedule.texts - 1
    cosine, base = mean_cosine(kappa, dimension), log_moment(kappa, dimension)
    size = rate * others + deviations * math.sqrt(rate * (1 - rate) * others) + 1
    limit = cosine * size

    def moment(v: float, u: float) -> float:
        """Return ln (M(length of (v, u)) / M(kappa))."""
        return log_moment(max(math.hypot(v, u), 1e-100), dimension) - base

    def coin(log: float) -> float:
        return float(np.logaddexp(math.log1p(-rate), math.log(rate) + log)) if rate < 1 else log

    def missed(x: Array) -> float:  # Y <= t although the example is in the batch
        return float(x[0] * threshold + moment(kappa - x[0], 0) + others * coin(moment(-x[0], kappa)))

    def large(x: Array) -> float:  # S'u >= B
        return float(-x[0] * limit + moment(kappa, x[0]) + others * coin(moment(0, kappa + x[0])))

    def shown(x: Array) -> float:
        example, other = moment(x[0] - kappa, -x[1]), moment(x[0], kappa - x[1])
        return float(-x[0] * threshold + x[1] * limit + coin(example) + others * coin(other))

    variance = cosine / kappa  # of a draw about u, along v
    start = threshold / (size * variance)
    not_shown = math.exp(_least(missed, [(cosine - threshold) / (size * variance)]))
    not_shown += math.exp(_least(large, [deviations / (cosine * math.sqrt(max(rate * others, 1)))]))
    return rate * max(0.0, 1 - not_shown), min(0.0, _least(shown, [start, start**2 * variance / (2 * cosine)]))


def _least(exponent: Callable[[Array], float], start: list[float]) -> float:
    """Return the minimum of a convex function of numbers >= 0, searched near `start`. Every value gives a bound."""
    scale = np.asarray(start)
    result = minimize(lambda x: exponent(np.abs(x) * scale), np.ones(len(start)), method="Nelder-Mead",
                      options={"xatol": 1e-3, "fatol": 1e-3, "maxiter": 120})  # fmt: skip
    return min(0.0, float(result.fun))


def _atoms(first: Array, second: Array) -> Atoms:
    """Return the losses of two mirror-image laws [cells], with each tail merged into its innermost cell."""
    certain = np.flatnonzero((first > _LEAST) & (second > _LEAST))
    low, high = int(certain[0]), int(certain[-1])
    laws = [np.maximum(law[low : high + 1], 0) for law in (first, second)]
    for law, whole in zip(laws, (first, second), strict=True):
        law[0] += max(float(whole[:low].sum()), 0)
        law[-1] += max(float(whole[high + 1 :].sum()), 0)
    seen = (laws[0] > _LEAST) & (laws[1] > _LEAST)  # smaller cells between the ends are left out of both laws
    log_p, log_q = np.log(laws[0][seen]), np.log(laws[1][seen])
    order = np.argsort(log_p - log_q, kind="stable")
    return Atoms((log_p - log_q)[order], log_p[order])


def _characteristic(frequencies: Array, values: Array, weights: Array) -> NDArray[np.complex128]:
    """Return E e^(i f X) at these frequencies f, for X with these values [n] and weights [n]."""
    return np.asarray(np.exp(1j * np.outer(frequencies, values)) @ weights)


def _aside(kappa: float, dimension: int) -> tuple[Array, Array]:
    """Return quadrature values [n] and weights [n] for T. The weights sum to 1."""
    reach = min(_REACH * math.sqrt(mean_cosine(kappa, dimension) / kappa), 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    values = reach * nodes
    squares = 1 - values**2
    logs = (dimension - 3) / 2 * np.log(squares)
    logs += [log_moment(kappa * root, dimension - 1) for root in np.sqrt(squares).tolist()]
    masses = weights * np.exp(logs - logs.max())
    return values, masses / masses.sum()
