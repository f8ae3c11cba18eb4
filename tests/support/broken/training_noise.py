"""Noise as home-made private trainings have it, each with one mistake; all claim what `GaussianNoise` claims."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.training.runs.gradients import ExampleGradients
from epsilometer.studies.training.runs.noise import GaussianNoise


class BatchClipped(GaussianNoise):
    """The mean of the batch is clipped instead of each example, and noised as the mean of clipped examples is."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Returns the clipped mean with noise."""
        mean = gradients.weighted_sum(np.full(gradients.count, 1 / float(expected_batch)))
        mean *= min(1.0, self.clip / max(float(np.linalg.norm(mean)), 1e-30))
        noise = generator.standard_normal(mean.size) * self.sigma * self.clip / float(expected_batch)
        return (mean + noise).astype(np.float32)


class MeanNoiseOnSum(GaussianNoise):
    """Noise for the mean is added to the sum, before it is divided: a batch too little."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Returns the mean of clipped gradients with too little noise."""
        return GaussianNoise(self.sigma / float(expected_batch), self.clip).update(gradients, expected_batch, generator)


class SumNoiseOnMean(GaussianNoise):
    """Noise for the sum is added to the mean: a batch too much, which is private and useless."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Returns the mean of clipped gradients with too much noise."""
        return GaussianNoise(self.sigma * float(expected_batch), self.clip).update(gradients, expected_batch, generator)


class OneNoise(GaussianNoise):
    """Every step has the same noise, as a generator that is seeded anew at each step gives."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Returns the mean of clipped gradients with the noise of every other step."""
        return super().update(gradients, expected_batch, np.random.default_rng(7))


class NotClipped(GaussianNoise):
    """No gradient is clipped, whatever the settings say."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Returns the mean of gradients as they are, with noise for clipped ones."""
        return super().update(_Long(gradients), expected_batch, generator)  # type: ignore[arg-type]


class _Long:
    """Gradients that say that they are short."""

    def __init__(self, gradients: ExampleGradients) -> None:
        self.weighted_sum = gradients.weighted_sum
        self.norms = lambda: np.zeros(gradients.count)
