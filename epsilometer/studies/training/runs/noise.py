"""The computation of an update from per-example gradients: clipping or scaling, noise, and a division.

The update is (noisy sum) / (q N). For N examples sampled at rate q, q N is the public expected batch size
(`accounting.schedule`). Division by the actual batch size would reveal this size. An empty batch is a step like any
other, and its update is noise alone.

| class | each gradient | noise | sensitivity of the sum to adding or removing one example |
|---|---|---|---|
| `GaussianNoise` | clipped to length C | sigma C on the sum | C |
| `DirectionalNoise` | scaled to length 1 | a von Mises-Fisher draw about each | none: it protects replaced examples |
| `ScaledNoise` | divided by its length + gamma | sigma on the sum | 1 |
| `NoNoise` | clipped to length C, or unchanged | none | C, or unlimited |

Sources, by row: Abadi et al. 2016, "Deep learning with differential privacy", algorithm 1; the module `directional`; Bu
et al. 2023, "Automatic clipping" (gamma 0 scales to length 1). The sensitivity to replacing an example is twice the
sensitivity in the table.

Sensitivities are over all parameters together, not per tensor. The noise on the sum has deviation sigma C, so the noise
on the mean has deviation sigma C / (q N). Each step samples its own noise from the given generator.

The operating system's generator (`core.system`) is for releases: noise is sampled in float64, and the update is rounded
to a public grid (`normals`). Seeded generators can be inverted, so they are only for audits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.releases import Gaussian, Release, VonMisesFisher
from epsilometer.core.errors import UserError
from epsilometer.core.normals import normals, on_grid
from epsilometer.core.system import is_system
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.studies.training.runs.directional import average
from epsilometer.studies.training.runs.gradients import ExampleGradients


class TrainingNoise(Protocol):
    """A rule that computes a step's update from gradients, and the release that an accountant assumes."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the update [d], the noisy gradient for an optimiser."""
        ...

    def release(self, parts: Sequence[int]) -> Release | None:
        """Return the release of a step for an accountant, or None if the step has no epsilon.

        parts: the lengths of the tensors.
        """
        ...


@dataclass(frozen=True)
class GaussianNoise:
    """Clipping of every gradient to length `clip`, and Gaussian noise of deviation sigma * clip on the sum."""

    sigma: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("sigma", self.sigma, "for clipping without noise use the noise `none` with a clip")
        _check_positive("clip", self.clip, "without clipping the contribution of an example is unbounded")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the noisy sum of clipped gradients, divided by the expected batch size."""
        weights = _clipped(gradients.norms(), self.clip)
        return _noised(gradients, weights, self.sigma * self.clip, expected_batch=expected_batch, generator=generator)

    def release(self, parts: Sequence[int]) -> Release:
        """Return Gaussian noise of deviation sigma on vectors of length 1. The clipping length cancels."""
        return Gaussian(self.sigma)


@dataclass(frozen=True)
class DirectionalNoise:
    """A von Mises-Fisher draw of concentration kappa about each gradient, or about each tensor of each gradient.

    parts: True for a separate draw per tensor; m tensors have m times the epsilon.
    """

    kappa: float
    parts: bool = False

    def __post_init__(self) -> None:
        _check_positive("kappa", self.kappa, "a draw at kappa 0 does not depend on its gradient")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the sum of the draws divided by the expected batch size; 0 for an empty batch."""
        if not self.parts:
            return self._mean(gradients, float(expected_batch), generator)
        every = [gradients.part(number) for number in range(len(gradients.parts))]
        return np.concatenate([self._mean(weights, float(expected_batch), generator) for weights in every])

    def release(self, parts: Sequence[int]) -> Release:
        """Return the release of one draw in all dimensions, or of one draw per tensor."""
        return VonMisesFisher(self.kappa, tuple(parts) if self.parts else (sum(parts),))

    def _mean(self, gradients: ExampleGradients, over: float, generator: np.random.Generator) -> NDArray[np.float32]:
        mean = average(gradients, self.kappa, generator, over)
        if not is_system(generator):
            return mean.astype(np.float32, copy=False)
        # One coordinate of a draw, orthogonal to its mean, has variance A / kappa, where A is the mean cosine.
        deviation = math.sqrt(mean_cosine(self.kappa, gradients.size) / (self.kappa * over))
        return on_grid(mean, deviation)


@dataclass(frozen=True)
class ScaledNoise:
    """Gradients divided by their length + gamma, and Gaussian noise of deviation sigma on the sum.

    sigma: 0 for scaling without noise; gamma: if positive, short gradients contribute less than long ones.
    """

    sigma: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("gamma", self.gamma)):
            if not (value >= 0 and math.isfinite(value)):
                raise UserError(f"{name} must be a finite number >= 0, got {value}", "EPS-T020")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the noisy sum of scaled gradients, divided by the expected batch size."""
        lengths = gradients.norms() + self.gamma
        weights = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return _noised(gradients, weights, self.sigma, expected_batch=expected_batch, generator=generator)

    def release(self, parts: Sequence[int]) -> Release | None:
        """Return Gaussian noise of deviation sigma on vectors of length at most 1; None for sigma 0."""
        return Gaussian(self.sigma) if self.sigma else None


@dataclass(frozen=True)
class NoNoise:
    """No noise, as a control: gradients unchanged, or clipped to length `clip`."""

    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is not None:
            _check_positive("clip", self.clip, "leave it out to keep gradients unclipped")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the sum of the gradients divided by the expected batch size."""
        norms = gradients.norms()
        weights = np.ones_like(norms) if self.clip is None else _clipped(norms, self.clip)
        return gradients.weighted_sum(weights / float(expected_batch))

    def release(self, parts: Sequence[int]) -> None:
        """Return None, because there is no epsilon."""
        return


def _clipped(norms: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Return the factors [L] that clip gradients of these lengths to length `clip`."""
    return np.divide(clip, norms, out=np.ones_like(norms), where=norms > clip)


def _noised(
    gradients: ExampleGradients,
    weights: NDArray[np.float64],
    deviation: float,
    expected_batch: Fraction | float,
    generator: np.random.Generator,
) -> NDArray[np.float32]:
    """Return the weighted sum of gradients plus noise of this deviation, divided by the expected batch size."""
    over = float(expected_batch)
    total = gradients.weighted_sum(weights / over)
    if not deviation:
        return total
    noise = normals(total.size, generator).reshape(total.shape)
    noise *= deviation / over
    noise += total
    return on_grid(noise, deviation / over) if is_system(generator) else noise.astype(np.float32, copy=False)


def _check_positive(name: str, value: float, remedy: str) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise UserError(f"{name} must be a finite number > 0, got {value}; {remedy}", "EPS-T021")
