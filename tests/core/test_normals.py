"""Normal numbers. Statistical tests have fixed seeds and thresholds with a stated probability of a false alarm."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from scipy.special import ndtri
from scipy.stats import kstest, norm

from epsilometer.core import system
from epsilometer.core.normals import normals, on_grid
from epsilometer.core.randomness import Noise


def test_normals_are_normal_and_independent() -> None:
    """10 numbers, each beyond 4.5 deviations with probability 7e-6, and two KS tests at 1e-5."""
    count = 400_001
    for generator in (Noise.named(1, "normals").generator(0), system.generator()):
        sample = normals(count, generator).astype(np.float64)
        assert len(sample) == count
        assert kstest(sample, norm.cdf).pvalue > 1e-5
        for power, mean, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105)):
            error = math.sqrt((square - mean**2) / count)
            assert abs((sample**power).mean() - mean) < 4.5 * error
        half = (count + 1) // 2  # the two numbers of a pair
        for left, other in ((sample[: half - 1], sample[half:]), (sample[1:], sample[:-1])):
            for f in (np.asarray, np.square):
                assert abs(np.corrcoef(f(left), f(other))[0, 1]) < 4.5 / math.sqrt(len(left))


def test_far_normals_are_as_many_as_there_should_be() -> None:
    """Beyond 4.5 deviations: 6.8e-6 a number, 27 of 4 million; below 8 or above 55 with probability 1e-5."""
    sample = normals(4_000_000, Noise.named(1, "far").generator(0))
    assert 8 <= np.count_nonzero(np.abs(sample) > 4.5) <= 55


def test_seeded_normals_are_the_same_whatever_else_is_drawn_later() -> None:
    first, again = (normals(1_000, Noise.named(1, "same").generator(0)) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first.dtype == np.float32
    assert normals(0, Noise.named(1, "same").generator(0)).shape == (0,)


def test_quantiles_are_as_exact_as_the_bound_on_a_release_assumes() -> None:
    below = np.concatenate([np.linspace(0.001, 0.499, 100), 2.0 ** -np.linspace(1.1, 64, 150)])
    with mpmath.workdps(40):
        truth = [-mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(p)) for p in below]
        worst = max(abs(mpmath.mpf(float(q)) / t - 1) for q, t in zip(ndtri(below), truth, strict=True))
    assert worst < 2.0**-48


def test_a_grid_does_not_depend_on_the_values() -> None:
    values = np.array([-1e3, -0.4, 0.0, 1e-9, 0.26, 7.77])
    assert np.array_equal(on_grid(values, 1.0), np.rint(values * 8) / 8)
    assert np.array_equal(on_grid(values, 1.99), np.rint(values * 8) / 8)
