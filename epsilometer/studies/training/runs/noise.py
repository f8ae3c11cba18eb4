"""The step from per-example gradients to an update: clipping or scaling, noise, a division.

The update is (noisy sum) / (q N): q N is the public expected batch size (`accounting.schedule`), never the actual one,
which would reveal how many examples came in. An empty batch is a step like any other, of noise alone.

| noise | each example | noise | most that adding or removing one example moves the sum |
|---|---|---|---|
| `GaussianNoise` | shortened to C | sigma C on the sum | C |
| `DirectionalNoise` | scaled to 1 | a von Mises-Fisher draw about each | unlimited: its neighbours are replacements |
| `ScaledNoise` | over its length + gamma | sigma on the sum | 1 |
| `NoNoise` | shortened to C, or as it is | none | C, or unlimited |

(Abadi et al. 2016, "Deep learning with differential privacy", algorithm 1; the module `directional`; Bu et al. 2023,
"Automatic clipping", where gamma 0 is scaling to 1.) Replacing an example moves the sum twice as far.

Sensitivities are over all parameters together, whatever tensors they belong to. Noise is on the sum, of deviation sigma
C: on the mean it would be sigma C / (q N). Each step draws its own from the given generator.

From a system's generator (`core.system`) the noise is drawn for a release: in float64, and the update is rounded to a
public grid (`normals`). Seeded streams can be inverted, and serve audits.
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
from epsilometer.core.system import is_system
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.studies.training.runs.directional import average
from epsilometer.studies.training.runs.gradients import ExampleGradients
from epsilometer.studies.training.runs.normals import normals, on_grid


class TrainingNoise(Protocol):
    """The rule that makes a step's update from gradients, and its release about them."""

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the gradient [d] that an optimiser takes."""
        ...

    def release(self, parts: Sequence[int]) -> Release | None:
        """Return the release of a step for an accountant; parts: the lengths of the tensors. None has no epsilon."""
        ...


@dataclass(frozen=True)
class GaussianNoise:
    """Clipping of every example and Gaussian noise on the sum; sigma: relative to clip, the largest gradient length."""

    sigma: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("sigma", self.sigma, "for clipping without noise use the noise `none` with a clip")
        _check_positive("clip", self.clip, "without clipping the contribution of an example is unbounded")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the sum of clipped gradients with noise, over the expected batch."""
        weights = _clipped(gradients.norms(), self.clip)
        return _noised(gradients, weights, self.sigma * self.clip, expected_batch=expected_batch, generator=generator)

    def release(self, parts: Sequence[int]) -> Release:
        """Return Gaussian noise of sigma on vectors of length 1, whatever C is."""
        return Gaussian(self.sigma)


@dataclass(frozen=True)
class DirectionalNoise:
    """A von Mises-Fisher draw of concentration kappa about each gradient, or about each of its tensors by itself.

    parts: whether by tensors; m of them cost m times as much, since each is a separate draw.
    """

    kappa: float
    parts: bool = False

    def __post_init__(self) -> None:
        _check_positive("kappa", self.kappa, "a draw at kappa 0 does not depend on its gradient")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the sum of the draws over the expected batch; without examples there are none, and it is 0."""
        if not self.parts:
            return self._mean(gradients, float(expected_batch), generator)
        every = [gradients.part(number) for number in range(len(gradients.parts))]
        return np.concatenate([self._mean(weights, float(expected_batch), generator) for weights in every])

    def release(self, parts: Sequence[int]) -> Release:
        """Return one draw in all dimensions, or one per tensor."""
        return VonMisesFisher(self.kappa, tuple(parts) if self.parts else (sum(parts),))

    def _mean(self, gradients: ExampleGradients, over: float, generator: np.random.Generator) -> NDArray[np.float32]:
        mean = average(gradients, self.kappa, generator, over)
        if not is_system(generator):
            return mean.astype(np.float32, copy=False)
        # The tangent variance of one coordinate of a draw is A / kappa.
        deviation = math.sqrt(mean_cosine(self.kappa, gradients.size) / (self.kappa * over))
        return on_grid(mean, deviation)


@dataclass(frozen=True)
class ScaledNoise:
    """Gradients over their lengths, and Gaussian noise of deviation sigma on the sum; sigma 0 is scaling alone.

    gamma: an addend to each length, so that a step shrinks as an example is learned.
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
        """Return the sum of scaled gradients with noise, over the expected batch."""
        lengths = gradients.norms() + self.gamma
        weights = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return _noised(gradients, weights, self.sigma, expected_batch=expected_batch, generator=generator)

    def release(self, parts: Sequence[int]) -> Release | None:
        """Return Gaussian noise of sigma on vectors of length 1 at most; None for sigma 0."""
        return Gaussian(self.sigma) if self.sigma else None


@dataclass(frozen=True)
class NoNoise:
    """No privacy: plain gradients, or clipped ones; a control."""

    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is not None:
            _check_positive("clip", self.clip, "leave it out to keep gradients unclipped")

    def update(
        self, gradients: ExampleGradients, expected_batch: Fraction | float, generator: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return the sum of the gradients over the expected batch."""
        norms = gradients.norms()
        weights = np.ones_like(norms) if self.clip is None else _clipped(norms, self.clip)
        return gradients.weighted_sum(weights / float(expected_batch))

    def release(self, parts: Sequence[int]) -> None:
        """Return None, since it has no epsilon."""
        return


def _clipped(norms: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Return the factor of each gradient that makes it at most as long as clip."""
    return np.divide(clip, norms, out=np.ones_like(norms), where=norms > clip)


def _noised(
    gradients: ExampleGradients,
    weights: NDArray[np.float64],
    deviation: float,
    expected_batch: Fraction | float,
    generator: np.random.Generator,
) -> NDArray[np.float32]:
    """Return the weighted sum of gradients with noise of a deviation, over the expected batch."""
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
