"""Canaries that are gradients: the strongest adversary audits a training's noise and sampling, without a model.

Each canary is a text whose gradient has length `LENGTH` along an axis of its own. Clipping reduces this length to the
clipping length, and scaling to about 1. For neighbours added or removed, a fair coin decides whether the canary is
included. For replaced neighbours, the coin decides which of two directions its gradient has. All other texts share one
gradient, along one further axis.

A white-box adversary sees every update and reads canary i from coordinate i. Let x_t be this coordinate at step t, in
units of an included canary's contribution. Gaussian noise has one law on all coordinates, so other dimensions can be
left out. For directional noise the number of dimensions matters, so updates keep all dimensions. Such updates are
useless for real texts, so no model is trained on them.

**Scores** are computed over all T steps, with sampling rate q and noise of deviation s on a coordinate.

- `likelihood`: the exact log likelihood ratio of inclusion. With Poisson sampling, steps have independent coins, so the
  ratio is the sum over t of ln(1 - q + q e^((2 x_t - 1) / 2s^2)). With fixed batches in a secret order, the ratio is
  the logarithm of the mean over the n batches of e^(sum over passes of (2 x - 1) / 2s^2). For two directions, the score
  is the difference of the ratios at x and at -x. Directional noise is nearly Gaussian on a coordinate, with deviation
  s.
- `sum`: the sum of x_t, the score of published audits. With sampling, it proves about half as much as `likelihood`.
- `placed`, for fixed batches: the sum of x over the steps of the canary's own batch. The adversary of this score knows
  the order of batches, as accountants of fixed batches assume. So the score refutes no claim that assumes a secret
  order.
- `spread`: the largest x_t minus the smallest. If all steps wrongly share one noise, the noise cancels in this
  difference, which then reveals inclusion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.releases import Gaussian, VonMisesFisher
from epsilometer.accounting.sampling import batches
from epsilometer.accounting.schedule import Poisson, Schedule
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.core.von_mises_fisher import mean_cosine
from epsilometer.studies.training.runs.noise import TrainingNoise

LENGTH = 8.0  # length of a canary's gradient, larger than any clipping length in use
_NO_NOISE = 0.05  # the deviation s in the scores of a training without noise


@dataclass(frozen=True)
class Axes:
    """`ExampleGradients` along axes: example i has `lengths[i]`, perhaps negative, on coordinate `axes[i]`."""

    axes: NDArray[np.int64]
    lengths: NDArray[np.float64]
    size: int

    @property
    def count(self) -> int:
        """L, the number of examples."""
        return len(self.axes)

    @property
    def parts(self) -> tuple[int, ...]:
        """The length of the one tensor."""
        return (self.size,)

    def norms(self) -> NDArray[np.float64]:
        """Return the lengths [L]."""
        return np.abs(self.lengths)

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the sum [d] of the gradients times their weights [L]."""
        return np.bincount(self.axes, weights * self.lengths, self.size).astype(np.float32)

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products [L, L] of the gradients, which are 0 for different axes."""
        return np.where(self.axes[:, None] == self.axes, np.outer(self.lengths, self.lengths), 0.0)

    def product(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the inner products [L] of the gradients with a vector [d]."""
        return self.lengths * vector[self.axes].astype(np.float64)

    def part(self, number: int) -> Axes:
        """Return these gradients unchanged, because there is only one tensor."""
        return self


@dataclass(frozen=True)
class Run:
    """An auditor's data after one run.

    coins:  [canaries], whether each canary was included, or in its first version.
    scores: [canaries] by the score's name; larger if inclusion, or the first version, is likelier.
    """

    coins: NDArray[np.bool_]
    scores: dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Canaries:
    """Gradient canaries. replaced: True for neighbours by replacement, False for neighbours by adding or removing.

    count: the number of canaries; size: the number of dimensions.
    Raises UserError if there are too few dimensions.
    """

    count: int
    size: int
    replaced: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.count < self.size:
            raise UserError(
                f"canaries need one dimension each, and the other texts one more, got {self.count} canaries in "
                f"{self.size} dimensions; plant fewer canaries",
                "EPS-T009",
            )


def run(canaries: Canaries, noise: TrainingNoise, schedule: Schedule, seed: int = 0) -> Run:
    """Run all steps of a training whose first texts are canaries, and score the canaries.

    seed: the seed of the coins, the batches and the noise. Raises UserError if the schedule has fewer texts than there
    are canaries.
    """
    if canaries.count > schedule.texts:
        raise UserError(
            f"canaries must be at most the {schedule.texts} texts of the training, got {canaries.count}; plant fewer "
            "canaries",
            "EPS-T010",
        )
    coins = Noise.named(1, seed, "gradient canaries", "coins").generator(0).random(canaries.count) < 0.5
    signs = np.where(coins, 1.0, -1.0 if canaries.replaced else 0.0)
    draws = Noise.named(schedule.steps, seed, "gradient canaries", "batches")
    streams = Noise.named(schedule.steps, seed, "gradient canaries", "noise", repr(noise))
    unit, deviation = _units(noise, schedule, canaries.size)
    scoring = _Scoring(canaries, schedule, deviation)
    for step, batch in enumerate(batches(schedule, draws)):
        axes = np.minimum(batch, canaries.count)
        lengths = LENGTH * np.append(signs, 1.0)[axes]
        there = lengths != 0
        gradients = Axes(axes[there], lengths[there], canaries.size)
        update = noise.update(gradients, schedule.expected_batch, streams.generator(step))
        own = batch[batch < canaries.count]
        scoring.add(step, own, update[: canaries.count].astype(np.float64) * float(schedule.expected_batch) / unit)
    return Run(coins, scoring.scores())


def _units(noise: TrainingNoise, schedule: Schedule, size: int) -> tuple[float, float]:
    """Return the unit and the noise's deviation on a coordinate, in units.

    The unit is a canary's contribution to the sum of a step.
    """
    release = noise.release((size,))
    if isinstance(release, VonMisesFisher):
        unit = mean_cosine(release.kappa, size)
        return unit, math.sqrt(float(schedule.expected_batch) / (unit * release.kappa))  # A / kappa per draw
    clip = getattr(noise, "clip", 1.0) or 1.0
    return clip, release.sigma if isinstance(release, Gaussian) else _NO_NOISE


class _Scoring:
    """Scores that are updated step by step."""

    def __init__(self, canaries: Canaries, schedule: Schedule, deviation: float) -> None:
        self.canaries, self.schedule, self.deviation = canaries, schedule, deviation
        self.sum, self.placed = np.zeros(canaries.count), np.zeros(canaries.count)
        self.least, self.most = np.full(canaries.count, np.inf), np.full(canaries.count, -np.inf)
        places = 1 if isinstance(schedule, Poisson) else schedule.batches
        self.first, self.second = np.zeros((places, canaries.count)), np.zeros((places, canaries.count))

    def add(self, step: int, batch: NDArray[np.int64], x: NDArray[np.float64]) -> None:
        """Add the coordinates x [canaries] of a step. batch: the indices of the canaries whose texts are in it."""
        self.sum += x
        self.placed[batch] += x[batch]
        np.minimum(self.least, x, out=self.least)
        np.maximum(self.most, x, out=self.most)
        place = step % len(self.first)
        self.first[place] += self._ratio(x)
        if self.canaries.replaced:
            self.second[place] += self._ratio(-x)

    def scores(self) -> dict[str, NDArray[np.float64]]:
        """Return the scores by name, [canaries]."""
        likelihood = _mean(self.first) - (_mean(self.second) if self.canaries.replaced else 0.0)
        placed = {} if isinstance(self.schedule, Poisson) else {"placed": self.placed}
        return {"likelihood": likelihood, "sum": self.sum, **placed, "spread": self.most - self.least}

    def _ratio(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        exponent = (2 * x - 1) / (2 * self.deviation**2)
        rate = self.schedule.rate if isinstance(self.schedule, Poisson) else Fraction(1)
        return exponent if rate == 1 else np.logaddexp(math.log(1 - rate), math.log(rate) + exponent)


def _mean(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm [canaries] of the mean of e^ratios over batches. ratios: [batches, canaries]."""
    return np.logaddexp.reduce(ratios, axis=0) - math.log(len(ratios))
