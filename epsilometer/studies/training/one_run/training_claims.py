"""The claims of a training as curves: the profile that one run tests, and a family of curves.

A training's profile consists of proved upper bounds on epsilon at several deltas, computed from its loss distribution.
With these few deltas, p-values are a few per cent larger than with all deltas.

The family consists of the training's own release and schedule with other amounts of noise. A bound by the family
assumes that the kind of noise and the sampling are right; only the amount of noise may be wrong.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import Gaussian, Release
from epsilometer.accounting.schedule import Schedule
from epsilometer.accounting.steps import steps_of
from epsilometer.core.guarantees import Neighbours
from epsilometer.studies.training.one_run.fdp import Profile
from epsilometer.studies.training.one_run.scores import Family

TRAINING = "training"
_DELTAS = (0.5, 0.2, 0.07, 0.02, 5e-3, 1e-3, 1e-4, 1e-6)
_FEW = (0.3, 0.03, 2e-3, 1e-4)  # fewer deltas for a family, because a search computes many of its curves
_WIDTH = 0.1  # width of brackets; only upper bounds are used, and it affects them less than lower bounds


@cache
def profile(
    release: Release, schedule: Schedule, neighbours: Neighbours, deltas: tuple[float, ...] = _DELTAS
) -> Profile:
    """Return the curve of a training: its epsilons at these deltas."""
    return Profile([epsilon(release, schedule, neighbours, delta) for delta in deltas], deltas)


@cache
def epsilon(release: Release, schedule: Schedule, neighbours: Neighbours, delta: float) -> float:
    """Return the upper bound on a training's epsilon at a delta, by its loss distribution."""
    steps = steps_of(release, schedule, neighbours)
    return bracket(steps.directions, steps.count, delta, _WIDTH).upper


def family(release: Release, schedule: Schedule, neighbours: Neighbours) -> Family:
    """Return the family of trainings that differ from this one only in the amount of noise."""

    def curve(strength: float) -> Profile:
        return profile(_of_strength(release, strength), schedule, neighbours, _FEW)

    def loss(strength: float, delta: float) -> float:
        return epsilon(_of_strength(release, strength), schedule, neighbours, delta)

    return Family(TRAINING, curve, loss, error=0.05)


def _of_strength(release: Release, strength: float) -> Release:
    """Return the release at a strength. Strength 1 is a sigma of 1, or a directional draw with a loss near 2 nats."""
    if isinstance(release, Gaussian):
        return Gaussian(1 / strength)
    return replace(release, kappa=strength * math.sqrt(sum(release.dimensions)))
