"""Vectors of independent normal numbers, as long as a model has parameters.

There are two samplers, one for each reader of the result:

- **Audits** (seeded): Box and Muller 1958, a radius sqrt(-2 ln u) from 40 random bits in float64 and an angle from 24
  bits, multiplied in float32, at half the cost of numpy's float32 normals. The law ends at 7.5 deviations, beyond which
  less than 1e-13 of a normal law lies, and has 2^24 angles: no statistic over a training can detect either. Only
  vectors are drawn this way; the scalars that decide a law (`directional`) are numpy's float64.
- **Releases** (operating system): the inverse CDF, in float64, of a uniform number of 63 bits in (0, 1/2), with a sign
  from the last bit; up to 9.1 deviations. Sums with it are then rounded to a public grid (`on_grid`).

The cost of rounding a release: let g be the grid over the noise's deviation, from 1/16 to 1/8. Rounding to a
public grid is post-processing, so a real Gaussian would lose nothing. The drawn number differs from the real quantile
by at most a relative 2^-48 (`test_normals.py`), and the uniform number by 2^-64 or a relative 2^-53. So
the ends of the cell of g deviations around a move by a 2^-48 at most, and its probability by a relative a 2^-47 / g, at
most 2^-40 within 8 deviations; further off there is 1.3e-15. A step on d numbers that is (epsilon, delta)-private in
real arithmetic is therefore (epsilon + eta, delta e^eta + tau)-private with eta = d 2^-39 and tau = d 2^-48: 1.1e-6 and
2.2e-9 for 592,130 numbers. The discrete Gaussian of `core.exact_samplers` would add neither, but take 100 times as
long.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from epsilometer.core.system import is_system, words

_BLOCK = 1 << 13  # words at a time: the working arrays fit in the processor's cache
_ANGLE_BITS = 24
_FINEST = 3  # a grid is at most 2^-3 deviations


def normals(count: int, generator: np.random.Generator) -> NDArray[np.floating]:
    """Return [count] independent draws of N(0, 1): float32, or float64 from a system's generator."""
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
    """Return values [...] as multiples of a power of two between 1/16 and 1/8 of the noise's deviation."""
    grid = 2.0 ** (math.floor(math.log2(deviation)) - _FINEST)
    return (np.rint(values / grid) * grid).astype(np.float32)


def _pairs(bits: NDArray[np.uint64], cosines: NDArray[np.float32], sines: NDArray[np.float32]) -> None:
    """Write two normal numbers for each word."""
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
    """Return the quantile of each word: 63 bits below 1/2, and a sign."""
    below = ndtri(((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)
    return np.where(bits & np.uint64(1), -below, below)
