"""Broken noise of private trainings, each with one mistake of real code. All make the claim of `GaussianNoise`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.training.runs.gradients import ExampleGradients
from epsilometer.studies.training.runs.noise import GaussianNoise


class BatchClipped(GaussianNoise):
    """Broken: the mean of the batch is clipped instead of each example, with noise for the mean of clipped examples."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the clipped mean with noise."""
        mean = gradients.weighted_sum(np.full(gradients.count, 1 / float(expected_batch)))
        mean *= min(1.0, self.clip / max(float(np.linalg.norm(mean)), 1e-30))
        noise = generator.standard_normal(mean.size) * self.sigma * self.clip / float(expected_batch)
        return (mean + noise).astype(np.float32)


class MeanNoiseOnSum(GaussianNoise):
    """Broken: noise for the mean is added to the sum, so it is too small by a factor of the batch size."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the mean of clipped gradients with too little noise."""
        return GaussianNoise(self.sigma / float(expected_batch), self.clip).update(gradients, expected_batch, generator)


class SumNoiseOnMean(GaussianNoise):
    """Broken: noise for the sum is added to the mean, so it is too large by a factor of the batch size."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the mean of clipped gradients with too much noise."""
        return GaussianNoise(self.sigma * float(expected_batch), self.clip).update(gradients, expected_batch, generator)


class OneNoise(GaussianNoise):
    """Broken: every step has the same noise, since the generator is seeded again at each step."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the mean of clipped gradients, with the same noise as every other step."""
        return super().update(gradients, expected_batch, np.random.default_rng(7))


class NotClipped(GaussianNoise):
    """Broken: no gradient is clipped, despite the settings."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the mean of unclipped gradients, with noise for clipped ones."""
        return super().update(_Long(gradients), expected_batch, generator)  # type: ignore[arg-type]


class _Long:
    """Gradients that report a length of 0."""

    def __init__(self, gradients: ExampleGradients) -> None:
        self.weighted_sum = gradients.weighted_sum
        self.norms = lambda: np.zeros(gradients.count)
