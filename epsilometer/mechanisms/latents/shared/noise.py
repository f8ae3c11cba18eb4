"""Noise on vectors: calibration to a claim, sampling, and densities. Losses are in nats.

Gaussian noise is calibrated by its exact privacy profile (Balle and Wang 2018, "Improving the Gaussian mechanism for
differential privacy", theorem 8). Let sigma be the standard deviation of the noise, Delta the L2 sensitivity of the
vector, and s = sigma / Delta. The smallest delta that holds at epsilon is

    delta(epsilon, s) = Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s).

Let a = 1/(2s) - epsilon s and b = 1/(2s) + epsilon s. Then e^epsilon phi(b) = phi(a), so delta = phi(a) (R(-a) - R(b))
with Mills' ratio R(x) = (1 - Phi(x)) / phi(x). This form does not overflow at any epsilon.

In an audit, a sample is the inverse CDF of a 53-bit uniform, so noise is limited to 8.3 sigma (Gaussian) or 37 scales
(Laplace). If the sum of vector and noise were not rounded, its low bits would depend on the input and could exclude
inputs (Mironov 2012, "On significance of the least significant bits for differential privacy"). So sums are rounded to
a public grid. The grid's step is a power of two between 1/512 and 1/256 of the noise's scale, the same for every input.
The remaining error comes from the 53-bit uniforms: it changes the probability of a grid cell by at most 2^-52. For
10,000 coordinates of some thousand cells each, this adds about 10^-8 to delta, compared with a usual delta of 10^-5.
Claims refer to the exact distributions.

In a publication, the vector is rounded towards 0 to multiples of scale / 2^24. A vector in a ball or cube around 0
stays in it, so the sensitivity does not change. Discrete noise of scale 2^24 is sampled exactly and added in integers
(`epsilometer.core.exact_samplers`, Canonne, Kamath and Steinke 2020). The conversion of the sum to floating point is
post-processing.

- Laplace: noise on integers with P(k) ~ e^(-|k| / 2^24) has a loss of at most epsilon, like Laplace noise on real
  numbers.
- Gaussian: let w = 2^24. Let D(k) ~ e^(-k^2 / 2w^2) be the discrete Gaussian's probability of k, and Q(k) the
  probability that a real Gaussian is rounded to k. Let c be the ratio of their normalisers. Averaging
  e^(-(k u + u^2 / 2) / w^2) over |u| <= 1/2 gives

      e^(-1 / 8w^2) <= Q(k) / (c D(k)) <= e^(k^2 / 24w^4).

  The rounded real Gaussian is post-processing of the calibrated real Gaussian. Suppose that the norm of the noise in d
  dimensions is at most (sqrt(d) + 13) w. Then the rounded and the discrete distribution differ by a factor of at most
  e^eta for each of two inputs, with eta = d / 8w^2 + (sqrt(d) + 13 + Delta / sigma)^2 / 24w^2. The norm is larger with
  probability tau < 2^-120. So the discrete Gaussian satisfies (epsilon + eta, delta e^eta + tau). For a million
  dimensions eta is 6e-10; for 8,000 dimensions and epsilon 1,000 eta is 7e-12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from epsilometer.core.errors import UserError
from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.randomness import Noise, open_unit

_GRID = 8  # in an audit, sums are rounded to a grid whose step is at most 2^-8 scales of the noise
_STEPS = 1 << 24  # grid steps per scale of the noise, in a publication
_CELLS = 1 << 18  # numbers at a time, so that the working arrays stay in the processor's cache
_SAFE = 1 + 1e-9  # safety factor that exceeds the error of root finding


def gaussian_log_delta(epsilon: float, scale: float) -> float:
    """Return ln delta of Gaussian noise at `epsilon`, exactly. scale: sigma divided by the L2 sensitivity."""
    a, b = 1 / (2 * scale) - epsilon * scale, 1 / (2 * scale) + epsilon * scale
    if a < 0:
        ratios = erfcx(-a / math.sqrt(2)) - erfcx(b / math.sqrt(2))
        return -a * a / 2 + math.log(ratios / 2) if ratios > 0 else -math.inf
    return math.log(ndtr(a) - math.exp(-a * a / 2) * erfcx(b / math.sqrt(2)) / 2)


def gaussian_log_deltas(epsilons: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return `gaussian_log_delta` at each of n epsilons, [n]."""
    a, b = 1 / (2 * scale) - epsilons * scale, 1 / (2 * scale) + epsilons * scale
    beyond = erfcx(b / math.sqrt(2))
    far = a < 0
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(erfcx(np.where(far, -a, 0.0) / math.sqrt(2)) - beyond, 0.0) / 2) - a * a / 2
        near = np.log(np.where(far, 1.0, ndtr(a) - np.exp(-a * a / 2) * beyond / 2))
    return np.asarray(np.where(far, logs, near), np.float64)


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the smallest sigma / L2 sensitivity at which Gaussian noise is (epsilon, delta)-private, for any epsilon.

    Algorithm 1 of Balle and Wang 2018 has the same result. Raises UserError unless 0 < epsilon and 0 < delta < 1.
    """
    _check(epsilon, delta)

    def excess(log_scale: float) -> float:
        return max(gaussian_log_delta(epsilon, math.exp(log_scale)), -1e6) - math.log(delta)

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return math.exp(brentq(excess, low, high, xtol=1e-13)) * _SAFE


def classical_gaussian_scale(epsilon: float, delta: float, as_published: bool = False) -> float:
    """Return sigma / L2 sensitivity by the classical formula, sqrt(2 ln(1.25 / delta)) / epsilon.

    The formula's proof (Dwork and Roth 2014, theorem A.1) needs epsilon < 1. Raises UserError for epsilon > 1, unless
    `as_published` is True, which reproduces published mechanisms whose claim is false.
    """
    _check(epsilon, delta)
    if epsilon > 1 and not as_published:
        raise UserError(
            f"the classical Gaussian mechanism is valid for epsilon <= 1, got {epsilon:g}; use the analytic Gaussian",
            "EPS-M044",
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


class LatentNoise(Protocol):
    """Independent noise on every coordinate, symmetric about 0."""

    @property
    def scale(self) -> float:
        """The scale of the noise on one coordinate, in the units of the latents."""
        ...

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on one coordinate."""
        ...

    def quantiles(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse CDF, elementwise."""
        ...

    def integers(self, exact: ExactDraws, count: int) -> NDArray[np.int64]:
        """Return [count] samples of the discrete distribution on the integers with scale 2^24."""
        ...

    def log_density(self, noise: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the log-densities [...] of vectors of noise [..., d]."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Normal noise; scale: sigma."""

    scale: float

    @property
    def deviation(self) -> float:
        """The standard deviation of one coordinate, sigma."""
        return self.scale

    def quantiles(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse CDF, elementwise."""
        return ndtri(uniforms) * self.scale

    def integers(self, exact: ExactDraws, count: int) -> NDArray[np.int64]:
        """Return [count] samples of the discrete Gaussian with scale 2^24."""
        return exact.gaussian(np.full(count, _STEPS, np.uint64))

    def log_density(self, noise: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the log-densities [...] of vectors of noise [..., d]."""
        squares = np.einsum("...d,...d->...", noise, noise, dtype=np.float64)
        return -squares / (2 * self.scale**2) - noise.shape[-1] * math.log(self.scale * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of density e^(-|x| / scale) / (2 scale). Epsilon is the L1 sensitivity divided by the scale."""

    scale: float

    @property
    def deviation(self) -> float:
        """The standard deviation of one coordinate, sqrt(2) scale."""
        return math.sqrt(2) * self.scale

    def quantiles(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse CDF, elementwise. Each tail is computed from its end, so that no digits are lost."""
        return np.copysign(np.log(2 * np.minimum(uniforms, 1 - uniforms)) * self.scale, uniforms - 0.5)

    def integers(self, exact: ExactDraws, count: int) -> NDArray[np.int64]:
        """Return [count] samples of the discrete Laplace distribution with scale 2^24."""
        return exact.laplace(np.ones(count, np.uint64), np.full(count, _STEPS, np.uint64))

    def log_density(self, noise: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the log-densities [...] of vectors of noise [..., d]."""
        return -np.abs(noise).sum(axis=-1, dtype=np.float64) / self.scale - noise.shape[-1] * math.log(2 * self.scale)


def laplace(epsilon: float, sensitivity: float) -> Laplace:
    """Return the Laplace noise that makes a vector of this L1 sensitivity epsilon-private (Dwork et al. 2006).

    Raises UserError for an invalid epsilon.
    """
    _check(epsilon, 0.5)
    return Laplace(sensitivity / epsilon)


def add(before: NDArray[np.float32], law: LatentNoise, noise: Noise) -> NDArray[np.float32]:
    """Return the vectors [n, d] plus noise, rounded to the grid that the module describes. Vector i uses stream i."""
    count, columns = before.shape
    grid = 2.0 ** (math.floor(math.log2(law.scale)) - _GRID)
    after = np.empty((count, columns), np.float32)
    rows = max(1, _CELLS // max(1, columns))
    for start in range(0, count, rows):
        part = slice(start, start + rows)
        if noise.exact is not None:
            step = law.scale / _STEPS
            moved = law.integers(noise.exact, before[part].size).reshape(before[part].shape)
            after[part] = (np.trunc(before[part].astype(np.float64) / step) + moved) * step
            continue
        noisy = law.quantiles(_uniforms(noise[part], columns))
        noisy += before[part]
        after[part] = np.rint(noisy / grid) * grid
    return after


def _uniforms(noise: Noise, columns: int) -> NDArray[np.float64]:
    """Return uniforms [n, columns] in the open unit interval. Row i comes from stream i.

    On arrays, numpy's Philox generator is six times as fast as `Noise`. One generator object per row costs little,
    since rows have thousands of numbers.
    """
    bits = np.empty((len(noise), columns), np.uint64)
    for i, row in enumerate(bits):
        row[:] = noise.generator(i).bit_generator.random_raw(columns)
    return open_unit(bits)


def _check(epsilon: float, delta: float) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UserError(f"epsilon must be a finite number > 0, got {epsilon}", "EPS-M045")
    if not 0 < delta < 1:
        raise UserError(f"delta must be in (0, 1), got {delta}; a usual choice is 1e-5", "EPS-M046")
