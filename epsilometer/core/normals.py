"""Vectors of independent normal numbers, one for each parameter of a model.

There are two samplers, one for audits and one for releases:

- **Audits** (seeded generator): Box and Muller 1958. A radius sqrt(-2 ln u) from 40 random bits, in float64, is
  multiplied by the cosine and sine of an angle from 24 bits, in float32. This costs half as much as numpy's float32
  normals. No number exceeds 7.5 deviations, beyond which a normal law has probability below 1e-13. There are only 2^24
  angles. No statistic over a training can detect either limit. Only noise on a model's parameters is sampled this way.
- **Releases** (operating system's generator): the inverse CDF, in float64, of a uniform number of 63 bits in (0, 1/2),
  with a random sign. Numbers reach up to 9.1 deviations. Sums with this noise are rounded to a public grid (`on_grid`).

The cost of rounding in a release: let g be the grid's step in deviations of the noise; g is between 1/16 and 1/8.
Rounding to a public grid is post-processing, so with an exact Gaussian it would cost nothing. The sampled number
differs from the exact quantile by at most a relative 2^-48 (`test_normals.py`). The 63-bit number differs from an
exactly uniform number by 2^-64 or a relative 2^-53. So the bounds of the grid cell around a value of t deviations move
by at most t 2^-48. The probability of this cell changes by a relative t 2^-47 / g, which is at most 2^-40 within 8
deviations. Beyond 8 deviations the probability is 1.3e-15. Take a step on d numbers that is (epsilon, delta)-private in
exact arithmetic. With this noise it is (epsilon + eta, delta e^eta + tau)-private, with eta = d 2^-39 and
tau = d 2^-48. For 592,130 numbers, eta is 1.1e-6 and tau is 2.1e-9. The discrete Gaussian of `core.exact_samplers` has
no such cost, but takes 100 times as long.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epsilometer.core.system import is_system, words

ROUNDED = 2.0**-39, 2.0**-48  # eta and tau of a step, for each of its numbers
_BLOCK = 1 << 13  # random words at a time, few enough that the working arrays fit into the processor's cache
_ANGLE_BITS = 24  # random bits for an angle
_FINEST = 3  # a grid's step is at most 2^-3 deviations


def normals(count: int, generator: np.random.Generator) -> NDArray[np.floating]:
    """Return independent samples of N(0, 1), [count]: float64 for the operating system's generator, else float32."""
    if is_system(generator):
        exact = np.empty(count)
        for start in range(0, count, _BLOCK):
            stop = min(start + _BLOCK, count)
            exact[start:stop] = _quantiles(words(generator, stop - start))
        return exact
    half = (count + 1) // 2
    out = np.empty(2 * half, np.float32)
    for start in range(0, half, _BLOCK):
        stop = min(start + _BLOCK, half)
        _pairs(words(generator, stop - start), out[start:stop], out[half + start : half + stop])
    return out[:count]


def on_grid(values: NDArray[np.floating], deviation: float) -> NDArray[np.float32]:
    """Return values [...] rounded to multiples of a power of two between 1/16 and 1/8 of the noise's deviation."""
    grid = 2.0 ** (math.floor(math.log2(deviation)) - _FINEST)
    return (np.rint(values / grid) * grid).astype(np.float32)


def _pairs(bits: NDArray[np.uint64], cosines: NDArray[np.float32], sines: NDArray[np.float32]) -> None:
    """Write two normal numbers for each random word, one to `cosines` and one to `sines`."""
    angle = (bits & np.uint64((1 << _ANGLE_BITS) - 1)).astype(np.float32)
    angle *= np.float32(2 * np.pi / (1 << _ANGLE_BITS))
    radius = (bits >> np.uint64(_ANGLE_BITS)).astype(np.float64)
    radius += 0.5
    radius *= 2.0 ** (_ANGLE_BITS - 64)
    np.log(radius, out=radius)
    radius *= -2
    length = np.sqrt(radius, out=radius).astype(np.float32)
    np.multiply(np.cos(angle), length, out=cosines)
    np.multiply(np.sin(angle), length, out=sines)


def _quantiles(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the normal quantile of each random word: 63 bits give a number in (0, 1/2), the last bit the sign."""
    below = ndtri(((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)
    return np.where(bits & np.uint64(1), -below, below)
