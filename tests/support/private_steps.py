"""Rules that a training step with Gaussian noise must obey, and a test that lists the broken ones by name.

An update times the expected batch is the sum of clipped gradients plus noise. Two updates from generators of the same
name have the same noise, so their difference is the difference of the sums, whichever program computed them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.randomness import Noise
from epsilometer.studies.training.runs.gradients import DenseGradients
from epsilometer.studies.training.runs.noise import GaussianNoise

SIZE, PARTS, BATCH = 20_000, (12_000, 8_000), 4.0
ROUNDING = 1e-3


def gradients(rows: list[float]) -> DenseGradients:
    """Return parallel gradients of these lengths, the worst case for a sum, spread over both tensors."""
    direction = np.random.default_rng(0).standard_normal(SIZE)
    direction /= np.linalg.norm(direction)
    return DenseGradients(np.outer(rows, direction).astype(np.float32), PARTS)


def broken_rules(noise: GaussianNoise) -> set[str]:
    """Return the names of the rules that updates break.

    sensitivity:  adding or removing an example changes the sum by at most C.
    deviation:    the noise on the sum has standard deviation sigma C, also in a batch without examples ("empty batch").
    fresh noise:  two steps have independent noise.
    finite:       an example with a gradient that is not finite changes nothing.

    The standard deviation of 20,000 numbers is wrong by 2.5 % with probability 6e-7.
    """

    def total(rows: list[float], step: str = "step") -> NDArray[np.float64]:
        generator = Noise.named(1, "rules", step).generator(0)
        return noise.update(gradients(rows), BATCH, generator).astype(np.float64) * BATCH

    def off(values: NDArray[np.float64], deviation: float) -> bool:
        return abs(float(values.std()) / deviation - 1) > 0.025

    broken, most = set(), noise.clip * (1 + ROUNDING)
    for with_one, without in (([5.0, -10.0], [5.0]), ([0.3, 0.2], [0.3]), ([9.0, 9.0, 9.0], [9.0, 9.0]), ([7.0], [])):
        if np.linalg.norm(total(with_one) - total(without)) > most:
            broken.add("sensitivity")
    deviation = noise.sigma * noise.clip
    some, other, empty = total([0.0]), total([0.0], "another step"), total([])
    if off(some, deviation):
        broken.add("deviation")
    if off(empty, deviation):
        broken.add("empty batch")
    if off(some - other, np.sqrt(2) * max(float(some.std()), 1e-30)):
        broken.add("fresh noise")
    if not np.array_equal(total([1.0, np.nan]), total([1.0, 0.0])):
        broken.add("finite")
    return broken
