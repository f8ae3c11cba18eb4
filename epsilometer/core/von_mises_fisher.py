"""The von Mises-Fisher law on the unit sphere of R^d: density C_d(kappa) e^(kappa mu'y) about a mean direction mu.

Privacy depends only on the cosine W = mu'y between a draw and its mean. The density of W is proportional to
e^(kappa w) (1 - w^2)^((d-3)/2) on [-1, 1]. With v = d/2 - 1 and Bessel functions I,

    E W = A(kappa) = I_(v+1)(kappa) / I_v(kappa),        M(kappa) = E e^(kappa U) = Gamma(v+1) (2/kappa)^v I_v(kappa),

where U is the cosine of a uniform direction (Mardia and Jupp 2000, "Directional statistics", section 9.3). All
functions use float64, for kappa from 1e-3 to 1e9 and d from 2 to 1e8. Bessel functions would overflow or underflow, so
they are replaced as follows.

- A is computed by Gauss' continued fraction 1 / (2(v+1)/kappa + 1 / (2(v+2)/kappa + ...)). At the first order v with
  s = sqrt(v^2 + kappa^2) >= 1,000, the uniform expansion of I'_v / I_v replaces the rest of the fraction (DLMF 10.41.3
  and 10.41.5). With the polynomials U_k in p^2 = (v/s)^2 (`_U`), and
  V_k - U_k = p (p^2 - 1)(U_(k-1)/2 + p U'_(k-1)) (DLMF 10.41.11),

      A = kappa / (s + v) - (kappa / s^2) sum_k s^-k W_k / sum_k s^-k U_k,    W_k = (k + 1/2) U_k + 2 p^2 dU_k/dp^2,

  where no digits are lost to cancellation. Five terms leave an error of about s^-5, below 1e-15.
- ln M is computed by its power series; for s >= 1,000 (in `log_moments`, s >= 190), by the same expansion.

Let b be another unit vector, and a = mu'b. For a uniform direction y, let t = b'y. Then y = t b + sqrt(1 - t^2) q,
where q is a uniform direction orthogonal to b. So kappa mu'y = kappa a t + kappa sqrt((1 - a^2)(1 - t^2)) w, where w is
the cosine of a uniform direction of R^(d-1). Hence for a draw y, the component t has the density

    f(t) ~ (1 - t^2)^((d-3)/2) e^(kappa a t) M_(d-1)(z) / M_d(kappa),    z = kappa sqrt((1 - a^2)(1 - t^2)).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.polynomial import polyder, polyval
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln, gammaln, ive

from epsilometer.core.errors import UserError

Array = NDArray[np.float64]

_ASYMPTOTIC = 1_000.0  # for larger s, five terms of the expansion are exact to rounding
_NEARLY = 190.0  # for larger s, the absolute error of five terms is below 2e-12
# Coefficients of U_k in powers of p^2, where u_k(p) / v^k = s^-k U_k(p^2), also at v = 0 (DLMF 10.41.10).
_U = (
    np.array([1.0]),
    np.array([3.0, -5.0]) / 24,
    np.array([81.0, -462.0, 385.0]) / 1152,
    np.array([30375.0, -369603.0, 765765.0, -425425.0]) / 414720,
    np.array([4465125.0, -94121676.0, 349922430.0, -446185740.0, 185910725.0]) / 39813120,
)
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)  # coefficients of ln Gamma(v + 1), by v^-1, v^-3, ...
_UNDERFLOW = 600.0  # a Bessel function below e^-600 is replaced by its series
_TOGETHER = 64  # kappas whose series are summed in one array
_DROP = 60.0  # a quadrature ends this many nats below the mode's log-density; less than e^-50 of the mass is beyond
_PANELS, _NODES = 64, 16


def check_concentration(kappa: float, dimension: int) -> None:
    """Raise UserError unless kappa is a finite number > 0 and the sphere has at least two dimensions."""
    if not (kappa > 0 and math.isfinite(kappa)):
        raise UserError(
            f"kappa must be a finite number > 0, got {kappa}; without noise no epsilon is finite", "EPS-C069"
        )
    if dimension < 2:
        raise UserError(
            f"a direction needs at least 2 dimensions, got {dimension}; add the part to another one", "EPS-C070"
        )


def mean_cosine(kappa: float, dimension: int) -> float:
    """Return E W, the mean cosine between a draw and its mean direction, to a relative error of about 1e-15."""
    check_concentration(kappa, dimension)
    order = dimension / 2 - 1
    last = order
    if math.hypot(order, kappa) < _ASYMPTOTIC:
        last += math.ceil(math.sqrt(_ASYMPTOTIC**2 - kappa**2) - order)
    quotient = _expanded_quotient(kappa, last)
    while last > order:
        quotient = 1 / (2 * last / kappa + quotient)
        last -= 1
    return quotient


def log_moment(kappa: float, dimension: int) -> float:
    """Return ln M = ln E e^(kappa U), U being the cosine of a uniform direction; about kappa^2 / 2d for small kappa."""
    check_concentration(kappa, dimension)
    order = dimension / 2 - 1
    size = math.hypot(order, kappa)
    if size < _ASYMPTOTIC or kappa**2 < dimension:
        return float(_series(np.array([kappa]), order)[0])
    first = polyval(1 / size, [float(polyval((order / size) ** 2, u)) for u in _U])
    above = kappa * (kappa / (size + order))  # s - v
    if order < 20:  # Stirling's series is not yet exact
        constant = math.lgamma(order + 1) - 0.5 * math.log(2 * math.pi * size)
        return above + order + order * math.log(2 / (size + order)) + constant + math.log(first)
    stirling = sum(c / order ** (2 * k + 1) for k, c in enumerate(_STIRLING))
    return above - order * math.log1p(above / (2 * order)) + 0.5 * math.log(order / size) + stirling + math.log(first)


def information(kappa: float, dimension: int) -> float:
    """Return kappa A - ln M in nats: the divergence of a draw's law from the uniform one.

    This number is an upper bound on the mutual information between a direction and one draw around it, for any law of
    the direction.
    """
    return kappa * mean_cosine(kappa, dimension) - log_moment(kappa, dimension)


def log_density(cosines: Array, kappa: float, dimension: int) -> Array:
    """Return the log-density of W at cosines [...] in (-1, 1), with respect to Lebesgue measure on the cosine."""
    shape = (dimension - 3) / 2 * (np.log1p(cosines) + np.log1p(-cosines))
    return kappa * cosines + shape - _log_beta(dimension) - log_moment(kappa, dimension)


def log_angle_density(angles: Array, kappa: float, dimension: int) -> Array:
    """Return the log-density of arccos W at angles [...] in (0, pi). It is smooth for every d >= 2."""
    shape = (dimension - 2) * np.log(np.sin(angles))
    return kappa * np.cos(angles) + shape - _log_beta(dimension) - log_moment(kappa, dimension)


def angle_range(kappa: float, dimension: int, drop: float = _DROP) -> tuple[float, float]:
    """Return the two angles in [0, pi] between which the log-density is within `drop` nats of its maximum."""
    check_concentration(kappa, dimension)
    powers = dimension - 2
    # The mode solves kappa sin^2 = (d-2) cos. This form of the cosine has no cancellation, even for large kappa.
    cosine = 2 * kappa / (powers + math.hypot(powers, 2 * kappa))
    mode = math.asin(math.sqrt(powers * cosine / kappa)) if powers else 0.0

    def excess(angle: float) -> float:
        """Return the log-density minus its value at the range's ends, in nats.

        Computing from differences to the mode avoids a loss of digits for large kappa and d.
        """
        rest = -2 * kappa * math.sin((angle - mode) / 2) * math.sin((angle + mode) / 2)
        if powers:
            turned = 2 * math.sin((angle - mode) / 2) * math.cos((angle + mode) / 2) / math.sin(mode)
            if turned <= -1:
                return -math.inf
            rest += powers * math.log1p(turned)
        return max(rest + drop, -2 * drop)

    low = 0.0 if not powers or excess(0.0) > 0 else brentq(excess, 0.0, mode, xtol=1e-16, rtol=1e-12)
    high = math.pi if excess(math.pi) > 0 else brentq(excess, mode, math.pi, xtol=1e-16, rtol=1e-12)
    return low, high


def quadrature(kappa: float, dimension: int) -> tuple[Array, Array]:
    """Return cosines [n] and weights [n] with sum 1, so that E f(W) = sum weights f(cosines).

    Gauss-Legendre panels cover the angles that have mass. The error is about 1e-12 for a smooth f that varies no faster
    than the density itself. For an f with a step, split the integral of `log_angle_density` at the step instead.
    """
    low, high = angle_range(kappa, dimension)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(low, high, _PANELS + 1)
    half = np.diff(edges)[:, None] / 2
    angles = edges[:-1, None] + half * (nodes + 1)
    logs = log_angle_density(angles, kappa, dimension)
    masses = half * weights * np.exp(logs - logs.max())
    return np.cos(angles).ravel(), (masses / masses.sum()).ravel()


def log_moments(kappas: Array, dimension: int) -> Array:
    """Return ln M at each kappa [n] >= 0, for d >= 1, with an error of at most 2e-12 nats beyond rounding.

    A density computed from ln M then has a relative error of 2e-12. At d = 1, U is -1 or 1, and M is the hyperbolic
    cosine.
    """
    if dimension == 1:
        return kappas + np.log1p(np.exp(-2 * kappas)) - math.log(2)
    order, logs = dimension / 2 - 1, np.zeros(len(kappas))
    expanded = (np.hypot(order, kappas) >= _NEARLY) & (kappas > 0)
    logs[expanded] = _expanded_log_moments(kappas[expanded], order)
    near = ~expanded & (kappas > 0)
    small = np.zeros(len(kappas), bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        bessel = np.log(ive(order, kappas[near])) + kappas[near]
    logs[near] = gammaln(order + 1) + order * np.log(2 / kappas[near]) + bessel
    # If ive underflows, or Gamma and the power cancel, the series is used, which then needs few terms.
    small[near] = ~(bessel > -_UNDERFLOW) | (kappas[near] ** 2 < dimension)
    logs[small] = _series(kappas[small], order)
    return logs


def log_component_density(angles: Array, cosine: float, kappa: float, dimension: int) -> Array:
    """Return the log-density of arccos t at angles [n] in (0, pi), with t = b'y the component along a unit vector b.

    cosine: a = mu'b. At a = 1 the result is `log_angle_density`.
    """
    sines = np.sin(angles)
    inner = log_moments(kappa * math.sqrt(max(0.0, 1 - cosine**2)) * sines, dimension - 1)
    logs = (dimension - 2) * np.log(sines) + kappa * cosine * np.cos(angles) + inner
    return logs - _log_beta(dimension) - log_moment(kappa, dimension)


def component_moments(cosine: float, kappa: float, dimension: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of t = b'y, from E yy' = (A / kappa) I + (1 - d A / kappa) mu mu'."""
    mean = mean_cosine(kappa, dimension)
    square = mean / kappa + (1 - dimension * mean / kappa) * cosine**2
    return cosine * mean, math.sqrt(max(square - (cosine * mean) ** 2, 1e-16 * square))


def _expanded_log_moments(kappas: Array, order: float) -> Array:
    """Return `log_moment` at kappas [n] by the expansion in the module's docstring.

    `log_moment` has its own scalar code, since stored results depend on its last digits.
    """
    sizes = np.hypot(order, kappas)
    square = (order / sizes) ** 2
    first = sum(polyval(square, u) / sizes**k for k, u in enumerate(_U))
    above = kappas * (kappas / (sizes + order))
    if order < 20:
        constant = math.lgamma(order + 1) - 0.5 * np.log(2 * math.pi * sizes)
        return np.asarray(above + order + order * np.log(2 / (sizes + order)) + constant + np.log(first))
    stirling = sum(c / order ** (2 * k + 1) for k, c in enumerate(_STIRLING))
    ratio = 0.5 * np.log(order / sizes)
    return np.asarray(above - order * np.log1p(above / (2 * order)) + ratio + stirling + np.log(first))


def _log_beta(dimension: int) -> float:
    """Return ln of the integral of (1 - w^2)^((d-3)/2) over [-1, 1]; large d use a series of a Gamma quotient."""
    x = (dimension - 1) / 2
    if x < 40:
        return float(betaln(x, 0.5))
    series = -1 / (8 * x) + 1 / (192 * x**3) - 1 / (640 * x**5) + 17 / (14336 * x**7)
    return 0.5 * math.log(math.pi / x) - series


def _expanded_quotient(kappa: float, order: float) -> float:
    """Return I_(v+1) / I_v at kappa by the expansion in the module's docstring, for s >= 1,000."""
    size = math.hypot(order, kappa)
    square = (order / size) ** 2
    values = [float(polyval(square, u)) for u in _U]
    slopes = [float(polyval(square, polyder(u))) for u in _U]
    raised = [(k + 0.5) * value + 2 * square * slopes[k] for k, value in enumerate(values)]
    ratio = float(polyval(1 / size, raised)) / float(polyval(1 / size, values))
    return kappa / (size + order) - kappa / size**2 * ratio


def _series(kappas: Array, order: float) -> Array:
    """Return ln of sum_j (kappa^2/4)^j / (j! (v+1) ... (v+j)) for kappas [n] > 0.

    The terms are positive, and the largest term is near j = (s - v) / 2. Each block of kappas is summed up to the last
    term that the block's largest kappa needs.
    """
    peaks = kappas * (kappas / (np.hypot(order, kappas) + order)) / 2
    by_peak, sums = np.argsort(peaks), np.empty(len(kappas))
    for start in range(0, len(kappas), _TOGETHER):
        block = by_peak[start : start + _TOGETHER]
        most = float(peaks[block[-1]])
        j = np.arange(1, math.ceil(most + 12 * math.sqrt(most) + 40))
        logs = np.cumsum(np.log(kappas[block, None] ** 2 / 4) - np.log(j) - np.log(order + j), axis=1)
        top = np.maximum(logs.max(axis=1), 0.0)
        sums[block] = top + np.log1p(np.exp(logs - top[:, None]).sum(axis=1) + np.expm1(-top))
    return sums
