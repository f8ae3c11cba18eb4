"""Dominating pairs: for each release and kind of neighbours, the laws P and P' that are hardest to tell apart.

Each pair describes one step. For two laws P and P', let H(eps) be sup_S P(S) - e^eps P'(S). A pair dominates if, for
every eps, the pair's H(eps) is at least the H(eps) of the step's output laws on any two neighbouring data sets.
Dominating pairs compose (Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via characteristic
function", theorem 10): the loss of T steps is at most the loss of T independent copies of the pair. In the worst case
the two losses are equal. Only the law of the pair's loss L = ln P/P' under P is needed to compute the loss of the
copies.

**Gaussian, Poisson with rate q, one example added or removed** (or zeroed: the sum leaves the example's gradient out).
The noise has the standard deviation s. If the example is removed, P = (1-q) N(0, s^2) + q N(1, s^2) and P' = N(0, s^2).
If the example is added, P and P' are exchanged (Zhu, Dong and Wang 2022, theorem 11). Both pairs are needed, since
neither of them has the larger H(eps) at every eps.

**Gaussian, Poisson, one example replaced**: P = (1-q) N(0, s^2) + q N(1, s^2), P' = (1-q) N(0, s^2) + q N(-1, s^2).
Proof that this pair dominates the output laws of any two gradients g, g' of length at most 1. Let Q and Q' be these
output laws. Let k = e^eps >= 1, R = N(0, s^2 I), A = N(g, s^2 I), B = N(g', s^2 I), and S any set of outputs. Then
Q(S) - k Q'(S) = q A(S) - (k-1)(1-q) R(S) - k q B(S). By Neyman and Pearson R(S) >= Phi(Phi^-1(A(S)) - |g|/s) and
B(S) >= Phi(Phi^-1(A(S)) - |g - g'|/s), where |g| <= 1 and |g - g'| <= 2. In the pair above, a half-line with the same
A(S) attains both bounds at once, with |g| = 1 and |g - g'| = 2. For k < 1, exchange Q and Q': they are again two laws
of this kind, so the same proof applies.

**A directional draw, replaced**: the von Mises-Fisher laws about opposite directions. The loss is 2 kappa W, where W is
the cosine between a draw and its mean. Opposite directions are the worst case if
H(theta) = sup_S P_mu(S) - e^eps P_nu(S) grows with the angle theta between mu and nu. Proof: the best S is a half-space
{v'y > c} with v in the plane of mu and nu. Turning nu away from mu in this plane lowers v'nu. A lower v'nu lowers
P_nu(v'y > c): take any two means m and n with v'm > v'n, and let y* be the mirror image of y in the hyperplane between
m and n. If y lies on the side of m, then P_m is denser at y than P_n, and v'y > v'y*. So P_m(v'y > c) is at least
P_n(v'y > c).

**A directional draw, zeroed**: the law about a direction, and the uniform law, because a zero gradient gets a uniform
draw. All directions are equivalent. The loss is kappa W - ln M. From the uniform law to the directional law, the loss
is ln M - kappa U. Here U is the cosine between a uniform draw and the direction, and M = E e^(kappa U).

A directional draw has no pair for an added or removed example. An average of n - 1 unit vectors has another support
than an average of n unit vectors, so no pure epsilon is finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epsilometer.core.von_mises_fisher import angle_range, log_angle_density, log_moment

Array = NDArray[np.float64]

_LOG_ROOT = math.log(math.sqrt(2 * math.pi))
_UNIFORM = 1e-150  # a concentration whose law equals the uniform one in float64


class Pair(Protocol):
    """The loss L of a pair of laws, under the first law P, as an increasing function of a coordinate x."""

    @property
    def scale(self) -> float:
        """A length on the x axis over which the density changes by about its own size."""
        ...

    @property
    def largest(self) -> float:
        """The largest loss of any output; inf if losses are unbounded."""
        ...

    def spans(self, tail: float) -> list[tuple[float, float]]:
        """Return ascending, disjoint intervals of x. Outside the intervals, P has a probability of at most 2 `tail`."""
        ...

    def loss(self, x: Array) -> Array:
        """Return L at x, elementwise."""
        ...

    def place(self, losses: Array) -> Array:
        """Return, for each of these values of L, its x; for values outside L's range, the nearest end of x's range."""
        ...

    def log_density(self, x: Array) -> Array:
        """Return the log-density of P at x, elementwise."""
        ...


@dataclass(frozen=True)
class _Sampled:
    """A pair for Gaussian noise. sigma: the noise's standard deviation s. rate: the sampling rate q of an example."""

    sigma: float
    rate: float

    @property
    def scale(self) -> float:
        """The noise's standard deviation."""
        return self.sigma


class _FromMixture(_Sampled):
    """A pair whose first law is (1-q) N(0, s^2) + q N(1, s^2)."""

    @property
    def largest(self) -> float:
        """Infinite: the loss is unbounded."""
        return math.inf

    def spans(self, tail: float) -> list[tuple[float, float]]:
        """Return intervals around both means, or around the single mean if every example enters."""
        return _about([1.0] if self.rate == 1 else [0.0, 1.0], self.sigma, tail)

    def log_density(self, x: Array) -> Array:
        """Return the log-density of the mixture."""
        return _normal(x, self.sigma) + _mixed(x, self.sigma, self.rate)


class Removed(_FromMixture):
    """(1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2)."""

    def loss(self, x: Array) -> Array:
        """Return ln(1 - q + q e^((2x - 1) / 2s^2))."""
        return _mixed(x, self.sigma, self.rate)

    def place(self, losses: Array) -> Array:
        """Return the inverse of `loss`: -inf at losses of at most ln(1 - q)."""
        return 0.5 + self.sigma**2 * (_log_over(losses, self.rate) - math.log(self.rate))


class Replaced(_FromMixture):
    """(1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2). The reverse is the mirror image."""

    def loss(self, x: Array) -> Array:
        """Return the difference of the mixtures' logarithms."""
        return _mixed(x, self.sigma, self.rate) - _mixed(-x, self.sigma, self.rate)

    def place(self, losses: Array) -> Array:
        """Return s^2 (L/2 + arsinh((1-q)/q e^(1 / 2s^2) sinh(L/2))), from a quadratic equation in e^(x / s^2)."""
        if self.rate == 1:
            return self.sigma**2 * losses / 2
        half = np.abs(losses) / 2
        with np.errstate(divide="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
        log = math.log1p(-self.rate) - math.log(self.rate) + 1 / (2 * self.sigma**2) + log_sinh
        arsinh = np.where(log > 300, log + math.log(2), np.arcsinh(np.exp(np.minimum(log, 300))))
        return np.copysign(self.sigma**2 * (half + arsinh), losses)


class Added(_Sampled):
    """N(0, s^2) against (1-q) N(0, s^2) + q N(1, s^2); x is minus the output."""

    @property
    def largest(self) -> float:
        """The limit of the loss, for outputs that are almost impossible if the example enters."""
        return math.inf if self.rate == 1 else -math.log1p(-self.rate)

    def spans(self, tail: float) -> list[tuple[float, float]]:
        """Return an interval about 0."""
        return _about([0.0], self.sigma, tail)

    def loss(self, x: Array) -> Array:
        """Return -ln(1 - q + q e^((-2x - 1) / 2s^2))."""
        return -_mixed(-x, self.sigma, self.rate)

    def place(self, losses: Array) -> Array:
        """Return the inverse of `loss`: +inf at losses of -ln(1 - q) and more."""
        return -0.5 - self.sigma**2 * (_log_over(-losses, self.rate) - math.log(self.rate))

    def log_density(self, x: Array) -> Array:
        """Return the log-density of the noise."""
        return _normal(x, self.sigma)


@dataclass(frozen=True)
class _OfDraw:
    """A directional draw in d dimensions, and a second law. x is minus the angle between the draw and its mean.

    The loss is slope cos x - offset. Subclasses set the slope and the offset.
    """

    kappa: float
    dimension: int

    @property
    def _slope(self) -> float:
        return self.kappa

    @property
    def _offset(self) -> float:
        return 0.0

    @property
    def scale(self) -> float:
        """About one standard deviation of the angle."""
        return _angle_scale(self.kappa, self.dimension)

    @property
    def largest(self) -> float:
        """The loss of a draw that equals its mean."""
        return self._slope - self._offset

    def spans(self, tail: float) -> list[tuple[float, float]]:
        """Return the interval of angles that have mass."""
        low, high = _angles(self.kappa, self.dimension, tail)
        return [(-high, -low)]

    def loss(self, x: Array) -> Array:
        """Return the loss, elementwise."""
        return self._slope * np.cos(x) - self._offset

    def place(self, losses: Array) -> Array:
        """Return the inverse of `loss`. It is computed from 1 - cos x, which is accurate for small angles."""
        return -_angle(1 - (losses + self._offset) / self._slope)

    def log_density(self, x: Array) -> Array:
        """Return the log-density of the angle."""
        return log_angle_density(-x, self.kappa, self.dimension)


class Opposite(_OfDraw):
    """Two directional draws around opposite means: the loss is 2 kappa cos x."""

    @property
    def _slope(self) -> float:
        return 2 * self.kappa


class ToUniform(_OfDraw):
    """A directional draw and a uniform draw: the loss is kappa cos x - ln M."""

    @property
    def _offset(self) -> float:
        return log_moment(self.kappa, self.dimension)


@dataclass(frozen=True)
class FromUniform:
    """A uniform draw and a directional draw. x is the angle of the uniform draw to the directional draw's mean."""

    kappa: float
    dimension: int

    @property
    def scale(self) -> float:
        """About one standard deviation of the angle."""
        return _angle_scale(_UNIFORM, self.dimension)

    @property
    def largest(self) -> float:
        """The loss of a draw opposite to the mean."""
        return self.kappa + log_moment(self.kappa, self.dimension)

    def spans(self, tail: float) -> list[tuple[float, float]]:
        """Return the interval of angles that have mass."""
        return [_angles(_UNIFORM, self.dimension, tail)]

    def loss(self, x: Array) -> Array:
        """Return ln M - kappa cos x."""
        return log_moment(self.kappa, self.dimension) - self.kappa * np.cos(x)

    def place(self, losses: Array) -> Array:
        """Return the inverse of `loss`."""
        return _angle(1 - (log_moment(self.kappa, self.dimension) - losses) / self.kappa)

    def log_density(self, x: Array) -> Array:
        """Return the log-density of the angle."""
        return log_angle_density(x, _UNIFORM, self.dimension)


@dataclass(frozen=True, eq=False)
class Atoms:
    """A pair of laws on finitely many outputs: their losses, ascending, and log-probabilities under P, [n] each."""

    losses: Array
    log_masses: Array

    @property
    def largest(self) -> float:
        """The largest loss of all outputs."""
        return float(self.losses[-1])


def _mixed(x: Array, sigma: float, rate: float) -> Array:
    """Return ln(1 - q + q e^((2x - 1) / 2s^2))."""
    exponent = (2 * x - 1) / (2 * sigma**2)
    return exponent if rate == 1 else np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)


def _log_over(losses: Array, rate: float) -> Array:
    """Return ln(e^l - (1 - q)); -inf if the difference is not positive."""
    if rate == 1:
        return losses
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log(np.maximum(np.expm1(np.minimum(losses, 1)) + rate, 0))
        large = losses + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, 1)))
    return np.where(losses > 1, large, small)


def _normal(x: Array, sigma: float) -> Array:
    return -((x / sigma) ** 2) / 2 - _LOG_ROOT - math.log(sigma)


def _about(means: list[float], sigma: float, tail: float) -> list[tuple[float, float]]:
    reach = -float(ndtri(tail)) * sigma
    if len(means) == 2 and 2 * reach < 1:
        return [(mean - reach, mean + reach) for mean in means]
    return [(means[0] - reach, means[-1] + reach)]


def _angle(deficit: Array) -> Array:
    """Return the angle whose cosine is 1 - deficit. The deficit is clipped to [0, 2]."""
    return 2 * np.arcsin(np.sqrt(np.clip(deficit / 2, 0, 1)))


def _angle_scale(kappa: float, dimension: int) -> float:
    low, high = angle_range(kappa, dimension, 0.5)
    return (high - low) / 2


def _angles(kappa: float, dimension: int, tail: float) -> tuple[float, float]:
    """Return the smallest and the largest angle; at most about `tail` of the mass lies outside them.

    Let r = 12 - ln `tail`. At both angles the log-density is r nats below its maximum. Outside the two angles it is
    lower still. The maximum density is about 1 / scale, so the mass outside is about e^-r pi / scale at most. This mass
    is at most about `tail`, since pi / scale is below e^12.
    """
    return angle_range(kappa, dimension, 12 - math.log(tail))
