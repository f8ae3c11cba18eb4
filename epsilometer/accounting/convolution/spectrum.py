"""The Fourier transform of a sum of independent integers: the product of the transforms of their laws.

If there are few summands, each is transformed by FFT. With thousands of summands, the product soon becomes negligible
at most frequencies, because the transform of a law is at most 1 everywhere. So the widest laws are transformed first,
by FFT. The other laws are transformed term by term, only at frequencies where the product is not yet negligible. A
power of a transform is also computed only at frequencies where the power is not negligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

Array = NDArray[np.float64]
_BY_FFT = 1 << 29  # every summand is transformed by FFT if the number of summands times size is at most this
_FAINT = 1e-18  # smaller values of a transform are negligible
_TABLE = 1 << 23  # most angles whose sine and cosine are in memory at a time (128 MB)
_AT_ONCE = 32  # summands transformed at a time


class Summand(NamedTuple):
    """An independent random integer: its values [m], their probabilities [m], and the number of independent draws."""

    places: NDArray[np.int64]
    shares: Array
    count: int = 1  # type: ignore[assignment]  # tuples have a method of this name


@dataclass(frozen=True)
class Spectrum:
    """The transform of a law. values: [size // 2 + 1], as from `scipy.fft.rfft`.

    factors: the number of summands. terms: the error of each summand's transform, in units of rounding errors.
    left_out: the norm of the error in the law that is due to frequencies left out.
    """

    values: NDArray[np.complex128]
    factors: int
    terms: float
    left_out: float = 0.0

    def steps(self, count: int, coin: float) -> Spectrum:
        """Return the transform of a sum of `count` steps. A step has this law with probability `coin`, else it is 0."""
        values = self.values if coin == 1 else coin * self.values + (1 - coin)
        faint = self.left_out if count == 1 else _FAINT  # norm of the error from size / 2 negligible values
        return Spectrum(_power(values, count), count * (self.factors + 1), self.terms, faint)

    def law(self, first: int, size: int) -> tuple[Array, float]:
        """Return the probabilities of first, first + 1, ..., [size], and the norm of their rounding error."""
        shares = np.roll(irfft(self.values, size), -(first % size))
        noise = np.finfo(float).eps * (self.factors + 2) * self.terms * float(np.linalg.norm(shares))
        return np.maximum(shares, 0.0), noise + self.left_out


def spectrum(summands: Sequence[Summand], size: int) -> Spectrum:
    """Return the transform of the law of the sum, modulo size. The places of each summand must ascend."""
    values, factors = np.ones(size // 2 + 1, np.complex128), sum(summand.count for summand in summands)
    if len(summands) * size <= _BY_FFT:
        for summand in summands:
            values *= _transform(summand, size)
        return Spectrum(values, factors, math.log2(size))
    ordered = sorted(summands, key=_variance, reverse=True)
    lowest = min(int(summand.places[0]) for summand in ordered)
    places = np.arange(lowest, max(int(summand.places[-1]) for summand in ordered) + 1)
    for first in range(0, len(ordered), _AT_ONCE):
        bright = np.abs(values) > _FAINT
        if int(bright.sum()) * len(places) <= _TABLE:
            few, faint = _at_few(values, ordered[first:], places, size)
            return Spectrum(few, factors, max(math.log2(size), len(places)), faint)
        for summand in ordered[first : first + _AT_ONCE]:
            values *= _transform(summand, size)
    return Spectrum(values, factors, math.log2(size))


def _at_few(
    values: NDArray[np.complex128], summands: Sequence[Summand], places: NDArray[np.int64], size: int
) -> tuple[NDArray[np.complex128], float]:
    """Multiply `values` by the transforms of these summands; return the product, and the norm of the law's error.

    Only frequencies at which the product is not negligible are computed. places: consecutive integers that include all
    values of these summands.
    """
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
        for row, summand in zip(weights, some, strict=True):
            row[summand.places - places[0]] = summand.shares
        real, imaginary = np.split(weights @ waves, 2, axis=1)
        for row, summand in zip(real + 1j * imaginary, some, strict=True):
            values[left] *= _power(row, summand.count)
    return values, math.sqrt(2 * faint / size)


def _transform(summand: Summand, size: int) -> NDArray[np.complex128]:
    transformed: NDArray[np.complex128] = rfft(np.bincount(summand.places % size, summand.shares, size))
    return _power(transformed, summand.count)


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return the values [n], of size at most about 1, to the power `count`; a negligible power becomes 0."""
    if count == 1:
        return values
    bright = np.flatnonzero(np.abs(values) > _FAINT ** (1 / count))
    powers = np.zeros_like(values)
    powers[bright] = np.exp(count * np.log(values[bright]))
    return powers


def _variance(summand: Summand) -> float:
    mean = float(summand.places @ summand.shares)
    return float((summand.places - mean) ** 2 @ summand.shares)
