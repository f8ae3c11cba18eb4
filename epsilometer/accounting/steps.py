"""The steps of a training as dominating pairs to compose: the pairs, the number of steps, and an example's coin.

A training has T steps in E passes over the data. With Poisson sampling, an example enters each step with probability q.

- Gaussian noise, Poisson: T steps of the pair of rate q.
- Gaussian noise, shuffled: each example enters one step of a pass, and the adversary knows which step. So there are E
    steps of the pair of rate 1. In shuffled trainings, "added or removed" means that the example's place is filled or
    empty. The places of other examples, and the public number that divides the sum, do not change.
- Directional draws, shuffled: E steps. Each step combines independent pairs, one per separately drawn part of the
    gradient. A combination of dominating pairs dominates.
- Directional draws, Poisson: T steps in which the adversary sees the example's coin. With probability q the loss of a
    step is that of the combined pairs, else 0. Since seeing the coin helps the adversary, this loss is an upper bound.
    The bound ignores how well the other draws of an average hide one draw.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilometer.accounting.dominating_pairs import (
    Added,
    Atoms,
    FromUniform,
    Opposite,
    Pair,
    Removed,
    Replaced,
    ToUniform,
)
from epsilometer.accounting.releases import Gaussian, Release
from epsilometer.accounting.schedule import Poisson, Schedule
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Neighbours

OF_TRAINING = (Neighbours.ADDED_OR_REMOVED, Neighbours.REPLACED, Neighbours.ZEROED)


@dataclass(frozen=True)
class Step:
    """A step's loss: with probability `coin` the sum over independent pairs, else 0. The adversary sees the coin."""

    pairs: tuple[Pair | Atoms, ...]
    coin: float = 1.0


@dataclass(frozen=True)
class Steps:
    """A number (`count`) of equal steps, for each direction in which neighbours can be compared."""

    directions: tuple[Step, ...]
    count: int


def steps_of(release: Release, schedule: Schedule, neighbours: Neighbours) -> Steps:
    """Return the steps that dominate a training with this release and schedule."""
    if neighbours not in OF_TRAINING:
        names = ", ".join(kind.value for kind in OF_TRAINING)
        raise UserError(f"neighbours of a training must be {names}, got {neighbours.value!r}", "EPS-L010")
    sampled = isinstance(schedule, Poisson)
    rate = float(schedule.rate) if sampled else 1.0
    count = schedule.steps if sampled else schedule.epochs
    if isinstance(release, Gaussian):
        pairs: tuple[Pair, ...]
        if neighbours is Neighbours.REPLACED:
            pairs = (Replaced(release.sigma, rate),)
        elif rate == 1:  # the reverse is the mirror image
            pairs = (Removed(release.sigma, rate),)
        else:
            pairs = (Removed(release.sigma, rate), Added(release.sigma, rate))
        return Steps(tuple(Step((pair,)) for pair in pairs), count)
    kappa, dimensions = release.kappa, release.dimensions
    if neighbours is Neighbours.ADDED_OR_REMOVED:
        raise UserError(
            "directional noise has no finite epsilon if an example is added or removed; set neighbours to replaced or "
            "zeroed",
            "EPS-L011",
        )
    if neighbours is Neighbours.REPLACED:
        return Steps((Step(tuple(Opposite(kappa, d) for d in dimensions), rate),), count)
    there, back = tuple(ToUniform(kappa, d) for d in dimensions), tuple(FromUniform(kappa, d) for d in dimensions)
    return Steps((Step(there, rate), Step(back, rate)), count)
