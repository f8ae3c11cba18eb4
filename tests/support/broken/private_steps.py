"""Private steps broken as home-made and released code breaks them, each in one way; correct is `GaussianNoise`.

More of them, of which an audit of one run shows what they give away, are in `training_noise`.
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
    """Divided by the examples at hand (meta-pytorch/opacus #571)."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        return super().update(gradients, max(gradients.count, 1), generator)


@dataclass(frozen=True)
class ClippedByLayer(GaussianNoise):
    """Every tensor is shortened to C by itself, so that an example is C sqrt(m) long, with noise for C."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        every = [gradients.part(i) for i in range(len(gradients.parts))]
        return np.concatenate(
            [super(ClippedByLayer, self).update(weights, expected_batch, generator) for weights in every]
        )


@dataclass(frozen=True)
class EmptySkipped(GaussianNoise):
    """A batch without examples makes no noise, which tells everybody that it has none (jax_privacy, "sharp edges")."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        if not gradients.count:
            return np.zeros(gradients.size, np.float32)
        return super().update(gradients, expected_batch, generator)


@dataclass(frozen=True)
class NanPassed(GaussianNoise):
    """A gradient that is not finite makes the step NaN."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        out = super().update(gradients, expected_batch, generator)
        matrix = getattr(gradients, "matrix", np.zeros(1))
        return out if np.isfinite(matrix).all() else np.full_like(out, np.nan)
