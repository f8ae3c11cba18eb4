"""The overlap and delta(level) of two vectors with independent Laplace noise of scale b on every coordinate.

Let the vectors have the distance t b in some coordinate, and let P be the law of the first vector's noisy value in this
coordinate. Under P the loss L of this coordinate is t with probability 1/2, and -t with probability e^-t / 2. Between
-t and t, L has the density e^((l - t) / 2) / 4 at l. So for u = z + 1/2

    E_P[e^(z L)] = e^(-t/2) (cosh(u t) + sinh(u t) / (2 u)),

and K(z), the transform for all coordinates together, is the product of these factors. No loss is rounded to a grid.
Both figures are inverse transforms, along a line on which terms do not cancel:

    overlap = 1 / (2 pi) * integral of K(-1/2 + i w) / (1/4 + w^2) dw,
    delta(level) = 1 / (2 pi) * integral of K(z) e^(-z level) / (z (z + 1)) dw,    z = c + i w,  c > 0

(the saddle-point accountant: Alghamdi et al., ICML 2023), summed at steps of 2 pi / T up to a frequency W. The bracket
covers every error of that sum:

- Steps: by Poisson's formula the sum equals the sum over all integers j of e^(c j T) delta(level + j T), of which only
  the term j = 0 is wanted. The other terms are positive. Term j is at most e^(-c |j| T) for j < 0, and at most
  e^(-c |j| T) K(2 c) e^(-2 c level) for j > 0 (Markov). For the overlap, term j is at most e^(-|j| T / 2).
- Truncation at W: with a = c + 1/2, each factor of |K(z)| beyond W is at most e^(-t/2) times the smallest of
  cosh(a t) (1 + 1 / 2W), sqrt(cosh(2 a t) (1 + 1 / 4W^2)) and the factor at w = 0. The rest of the integrand is at most
  1 / w^2.
- Floating point: every term has n + 8 rounding errors, for n coordinates.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from epsilometer.auditing.exact_loss.bracket import Bracket

Array = NDArray[np.float64]
_BLOCK = 64  # frequencies computed at a time
_TERMS = 1 << 22  # largest number of frequencies times coordinates; if more are needed, the bracket is wider
_WIDEST = 1e5  # largest c that is tried


def log_overlap(distances: Array, tolerance: float) -> Bracket[float]:
    """Return a bracket of ln of the overlap, the integral of min(P, P').

    distances: [n] >= 0, the distance in each coordinate, in units of b. tolerance: the approximate error to allow, in
    nats.
    """
    t = distances[distances > 0]
    if not len(t):
        return Bracket(0.0, 0.0)
    log_rho = _log_moment(t, 0.0)
    period = 2 * (math.log(4 / tolerance) - 2 * log_rho)  # overlap >= rho^2 / 2, with rho = K(-1/2)
    share = 1 / (1 + math.sqrt(_variance(t)))  # about overlap / rho = E[e^(-|L| / 2)] under sqrt(P P') / rho
    end = _end(t, 0.0, math.log(tolerance * share) + log_rho, period)
    frequencies, ratios = _transform(t, 0.0, end, period)
    terms = ratios.real / (0.25 + frequencies**2)
    total = _sum(terms, period)
    rounding = _rounding(t) * _sum(np.abs(terms), period)
    cut = math.exp(_log_ceiling(t, 0.0, end) - log_rho) / (math.pi * end)
    shifted = 2 * math.exp(-period / 2 - log_rho) / -math.expm1(-period / 2)
    low, high = total - rounding - cut - shifted, total + rounding + cut
    return Bracket(log_rho + math.log(low) if low > 0 else -math.inf, min(log_rho + math.log(high), 0.0))


def deltas(distances: Array, levels: Array, tolerance: float) -> Bracket[Array]:
    """Return brackets of delta at levels [m] >= 0 in nats. distances: [n]. tolerance: the absolute error, roughly."""
    t = distances[distances > 0]
    if not len(t):
        return Bracket(np.zeros(len(levels)), np.zeros(len(levels)))
    bracket = _deltas(t, levels, _least(t), math.log(tolerance / 2))
    apart = -np.expm1(np.minimum(levels / 2 + _log_moment(t, 0.0), 0.0))  # 1 - delta <= e^(level / 2) sum sqrt(P P')
    return Bracket(np.maximum(bracket.low, apart * (1 - 1e-12)), bracket.high)


def delta(distances: Array, level: float, tolerance: float) -> Bracket[float]:
    """Return a bracket of delta at a level. tolerance: the approximate relative error.

    The integral is along the line on which K(z) e^(-z level) is smallest.
    """
    t = distances[distances > 0]
    if t.sum() <= level:
        return Bracket(0.0, 0.0)
    least = math.log(_least(t))
    minimum = minimize_scalar(
        lambda log_c: _log_moment(t, math.exp(log_c) + 0.5) - math.exp(log_c) * level,
        bounds=(least, math.log(_WIDEST)),
        method="bounded",
    )
    c = math.exp(minimum.x)
    bracket = _deltas(t, np.array([level]), c, float(minimum.fun) + math.log(tolerance / (4 * (1 + c) ** 2)))
    return Bracket(float(bracket.low[0]), float(bracket.high[0]))


def _deltas(t: Array, levels: Array, c: float, log_allowed: float) -> Bracket[Array]:
    """Return delta at levels [m], integrated along the line at c. log_allowed: ln of each source's allowed error."""
    a = c + 0.5
    log_k = _log_moment(t, a)
    shifts = np.logaddexp(0.0, _log_moment(t, 2 * c + 0.5) - 2 * c * levels)  # ln(1 + K(2 c) e^(-2 c level))
    period = max(1.0, (float(shifts.max()) - log_allowed + 1) / c)
    log_scale = log_k - c * levels
    end = _end(t, a, log_allowed + c * float(levels.min()), period)
    frequencies, ratios = _transform(t, a, end, period)
    z = c + 1j * frequencies
    terms = ratios / (z * (z + 1))
    scale, sizes = np.exp(log_scale), _sum(np.abs(terms), period)
    values = _turned_sums(terms, levels, period)
    cut = np.exp(_log_ceiling(t, a, end) - c * levels) / (math.pi * end)
    shifted = np.exp(shifts - c * period) / -math.expm1(-c * period)
    error = scale * _rounding(t) * sizes + cut
    gone = levels >= t.sum()
    low, high = scale * values - error - shifted, scale * values + error
    return Bracket(np.where(gone, 0.0, low.clip(0, 1)), np.where(gone, 0.0, high.clip(0, 1)))


def _least(t: Array) -> float:
    """Return a c that is small enough for K(c) to be about K(0), and large enough for a short period."""
    return min(0.5, 1 / math.sqrt(_variance(t)))


def _variance(t: Array) -> float:
    """Return the variance of L under the law proportional to sqrt(P P').

    In each coordinate that law has the probability 1 / (2 + t) at t and at -t, and is uniform between them.
    """
    return float(((2 * t**2 + t**3 / 3) / (2 + t)).sum())


def _scaled(t: Array, a: float) -> tuple[Array, Array, Array]:
    """Return cosh(a t), sinh(a t) and cosh(a t) + sinh(a t) / (2 a), each times e^(-a t)."""
    cosh, sinh = (1 + np.exp(-2 * a * t)) / 2, -np.expm1(-2 * a * t) / 2
    return cosh, sinh, cosh + (sinh / (2 * a) if a else t / 2)


def _log_moment(t: Array, a: float) -> float:
    """Return ln K(a - 1/2)."""
    return float(((a - 0.5) * t + np.log(_scaled(t, a)[2])).sum())


def _log_ceiling(t: Array, a: float, end: float) -> float:
    """Return ln of an upper bound on |K(a - 1/2 + i w)| for all w >= end."""
    cosh, _, real = _scaled(t, a)
    double = np.sqrt((1 + np.exp(-4 * a * t)) / 2 * (1 + 0.25 / end**2))
    return float(((a - 0.5) * t + np.log(np.minimum(np.minimum(cosh * (1 + 0.5 / end), double), real))).sum())


def _end(t: Array, a: float, log_allowed: float, period: float) -> float:
    """Return the smallest power of two beyond which frequencies contribute at most the allowed error.

    The result is smaller than that if more than `_TERMS` terms would be needed.
    """
    most = max(4.0, _TERMS / max(1, len(t)) * 2 * math.pi / period)
    end = 4.0
    while end < most and _log_ceiling(t, a, end) - math.log(math.pi * end) > log_allowed:
        end *= 2
    return end


def _transform(t: Array, a: float, end: float, period: float) -> tuple[Array, NDArray[np.complex128]]:
    """Return the frequencies w from 0 to `end`, and K(a - 1/2 + i w) / K(a - 1/2) at each frequency."""
    step = 2 * math.pi / period
    frequencies: Array = step * np.arange(math.ceil(end / step) + 1.0)
    cosh, sinh, real = _scaled(t, a)
    turns = np.exp(1j * step * np.multiply.outer(np.arange(_BLOCK), t))
    ratios = np.ones(len(frequencies), np.complex128)
    for start in range(0, len(frequencies), _BLOCK):
        u = a + 1j * frequencies[start : start + _BLOCK]
        turned = turns[: len(u)] * np.exp(1j * frequencies[start] * t)
        cos, sin = turned.real, turned.imag
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 at the frequency 0, set below
            factors = (cosh * cos + 1j * sinh * sin + (sinh * cos + 1j * cosh * sin) / (2 * u[:, None])) / real
        ratios[start : start + _BLOCK] = factors.prod(axis=1)
    ratios[0] = 1
    return frequencies, ratios


def _sum(terms: Array, period: float) -> float:
    """Return the integral over all w, divided by 2 pi, of an even function with these values at w >= 0."""
    return float(2 * terms.sum() - terms[0]) / period


def _turned_sums(terms: NDArray[np.complex128], levels: Array, period: float) -> Array:
    """Return, for each level [m], `_sum` of the terms times e^(-i level w), mostly by one matrix product."""
    step = 2 * math.pi / period
    rows = np.zeros((-(-len(terms) // _BLOCK), _BLOCK), np.complex128)
    rows.ravel()[: len(terms)] = terms
    within = np.exp(-1j * step * np.multiply.outer(np.arange(_BLOCK), levels))
    begin = np.exp(-1j * step * _BLOCK * np.multiply.outer(np.arange(len(rows)), levels))
    return (2 * np.einsum("jm,jm->m", rows @ within, begin).real - terms[0].real) / period


def _rounding(t: Array) -> float:
    return (len(t) + 8) * 4 * float(np.finfo(float).eps)
