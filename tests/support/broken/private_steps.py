"""Broken private training steps, each with one mistake from real code; `GaussianNoise` is correct.

`training_noise` has further broken steps, which audits of one run detect.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.training.runs.gradients import ExampleGradients
from epsilometer.studies.training.runs.noise import GaussianNoise


@dataclass(frozen=True)
class ActualBatch(GaussianNoise):
    """Broken: the sum is divided by the actual number of examples (meta-pytorch/opacus #571)."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        return super().update(gradients, max(gradients.count, 1), generator)


@dataclass(frozen=True)
class ClippedByLayer(GaussianNoise):
    """Broken: each of m tensors is clipped to C separately. An example has length C sqrt(m), but the noise is for C."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        every = [gradients.part(i) for i in range(len(gradients.parts))]
        return np.concatenate(
            [super(ClippedByLayer, self).update(weights, expected_batch, generator) for weights in every]
        )


@dataclass(frozen=True)
class EmptySkipped(GaussianNoise):
    """Broken: an empty batch gets no noise, which reveals that it is empty (jax_privacy, "sharp edges")."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        if not gradients.count:
            return np.zeros(gradients.size, np.float32)
        return super().update(gradients, expected_batch, generator)


@dataclass(frozen=True)
class NanPassed(GaussianNoise):
    """Broken: a gradient that is not finite makes the whole step NaN."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        out = super().update(gradients, expected_batch, generator)
        matrix = getattr(gradients, "matrix", np.zeros(1))
        return out if np.isfinite(matrix).all() else np.full_like(out, np.nan)
