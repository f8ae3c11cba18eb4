"""The Fourier transform of a sum of independent integers: the product of the transforms of their laws.

Few summands are each transformed by FFT. With thousands, most of the product's frequencies are soon too faint to
decide anything: no transform of a law is larger than 1, so a product is at most as large as that of some of its
factors. So the widest laws come first, by FFT, and the others are transformed at the remaining frequencies, term by
term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

Array = NDArray[np.float64]
Summand = tuple[NDArray[np.int64], Array]  # possible values, ascending [m], and their probabilities [m]
_BY_FFT = 1 << 29  # values of transforms; beyond them only the remaining frequencies are used
_FAINT = 1e-18
_TABLE = 1 << 23  # values of waves in memory at a time (128 MB)
_AT_ONCE = 32  # summands


@dataclass(frozen=True)
class Spectrum:
    """The transform of a law. values: [size // 2 + 1], as from `scipy.fft.rfft`.

    terms: the error of a summand's transform, as a multiple of a number's rounding. left_out: the norm of the law of
    the part that was left out.
    """

    values: NDArray[np.complex128]
    terms: float
    left_out: float = 0.0


def spectrum(summands: Sequence[Summand], size: int) -> Spectrum:
    """Return the transform of the law of the sum, modulo size."""
    values = np.ones(size // 2 + 1, np.complex128)
    if len(summands) * size <= _BY_FFT:
        for summand in summands:
            values *= _transform(summand, size)
        return Spectrum(values, math.log2(size))
    ordered = sorted(summands, key=_variance, reverse=True)
    lowest = min(int(places[0]) for places, _ in ordered)
    places = np.arange(lowest, max(int(places[-1]) for places, _ in ordered) + 1)
    for first in range(0, len(ordered), _AT_ONCE):
        bright = np.abs(values) > _FAINT
        if int(bright.sum()) * len(places) <= _TABLE:
            return _at_few(values, ordered[first:], places, size)
        for summand in ordered[first : first + _AT_ONCE]:
            values *= _transform(summand, size)
    return Spectrum(values, math.log2(size))


def _at_few(
    values: NDArray[np.complex128], summands: Sequence[Summand], places: NDArray[np.int64], size: int
) -> Spectrum:
    """Return the spectrum, given that of the other summands. places: all possible sums of these, consecutive."""
    left, faint = np.arange(len(values)), 0.0
    waves = np.empty((0, 0))
    for first in range(0, len(summands), _AT_ONCE):
        bright = np.abs(values[left]) > _FAINT
        if 2 * int(bright.sum()) <= len(left) or not first:
            faint += float(np.linalg.norm(values[left[~bright]])) ** 2
            values[left[~bright]] = 0.0
            left = left[bright]
            angles = np.outer(places, left) % size * (2 * math.pi / size)
            waves = np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)
        some = summands[first : first + _AT_ONCE]
        weights = np.zeros((len(some), len(places)))
        for row, (at, shares) in zip(weights, some, strict=True):
            row[at - places[0]] = shares
        real, imaginary = np.split(weights @ waves, 2, axis=1)
        values[left] *= (real + 1j * imaginary).prod(axis=0)
    return Spectrum(values, max(math.log2(size), len(places)), math.sqrt(2 * faint / size))


def _transform(summand: Summand, size: int) -> NDArray[np.complex128]:
    places, weights = summand
    transformed: NDArray[np.complex128] = rfft(np.bincount(places % size, weights, size))
    return transformed


def _variance(summand: Summand) -> float:
    places, weights = summand
    mean = float(places @ weights)
    return float((places - mean) ** 2 @ weights)
