"""What a training claims, as curves: profiles that one run is tested against, and the family that they belong to.

A profile of a training is the upper end of its loss distribution's bracket at several deltas, so it claims nothing that
is not proved. With few deltas F is larger than with all, and p-values are too, by some per cent.

The family has the training's own release and schedule at other noise. A bound by it presumes that the training is one
of them: that it may be wrong about how much noise there is, not about its kind or its sampling.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.releases import Gaussian, Release
from epsilometer.accounting.schedule import Schedule
from epsilometer.accounting.steps import steps_of
from epsilometer.auditing.one_run.fdp import Profile
from epsilometer.auditing.one_run.scores import Family
from epsilometer.core.guarantees import Neighbours

TRAINING = "training"
_DELTAS = (0.5, 0.2, 0.07, 0.02, 5e-3, 1e-3, 1e-4, 1e-6)
_FEW = (0.3, 0.03, 2e-3, 1e-4)  # of a family, of which many curves are tried
_WIDTH = 0.1  # of brackets whose upper end is used, which moves far less than the lower one


@cache
def profile(
    release: Release, schedule: Schedule, neighbours: Neighbours, deltas: tuple[float, ...] = _DELTAS
) -> Profile:
    """Returns the curve of a training, by its epsilons at some deltas."""
    return Profile([epsilon(release, schedule, neighbours, delta) for delta in deltas], deltas)


@cache
def epsilon(release: Release, schedule: Schedule, neighbours: Neighbours, delta: float) -> float:
    """Returns the upper end of the bracket of a training's epsilon."""
    steps = steps_of(release, schedule, neighbours)
    return bracket(steps.directions, steps.count, delta, _WIDTH).upper


def family(release: Release, schedule: Schedule, neighbours: Neighbours) -> Family:
    """Returns the trainings that differ from this one by their noise alone."""

    def curve(strength: float) -> Profile:
        return profile(_of_strength(release, strength), schedule, neighbours, _FEW)

    def loss(strength: float, delta: float) -> float:
        return epsilon(_of_strength(release, strength), schedule, neighbours, delta)

    return Family(TRAINING, curve, loss, error=0.05)


def _of_strength(release: Release, strength: float) -> Release:
    """Of strength 1 is a sigma of 1, and a directional draw that loses some 2 nats."""
    if isinstance(release, Gaussian):
        return Gaussian(1 / strength)
    return replace(release, kappa=strength * math.sqrt(sum(release.dimensions)))
