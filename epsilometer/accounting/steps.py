"""The steps of a training, as dominating pairs to compose: which pair, how often, with which coin.

- Gaussian, Poisson: T steps of the sampled pair. Shuffled: each example enters one step of a pass and the adversary
    knows which, so E steps of the pair of rate 1. One example added or removed there means that its place is empty or
    not; the places of the others, and the public number that the sum is divided by, do not depend on it.
- Directional draws, shuffled: E steps of the product of the parts' pairs (a product of dominating pairs dominates).
    Poisson: T steps with the example's coin given to the adversary: with probability q the product, else no loss. That
    is an upper bound, as giving a coin away helps; it ignores how well the other draws of an average hide one.
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
    """The loss of a step: none with probability 1 - coin, which shows, else the losses of independent pairs."""

    pairs: tuple[Pair | Atoms, ...]
    coin: float = 1.0


@dataclass(frozen=True)
class Steps:
    """A number (count) of equal steps, in each direction in which neighbours can be compared."""

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
        elif rate == 1:  # the reverse is its mirror image
            pairs = (Removed(release.sigma, rate),)
        else:
            pairs = (Removed(release.sigma, rate), Added(release.sigma, rate))
        return Steps(tuple(Step((pair,)) for pair in pairs), count)
    kappa, dimensions = release.kappa, release.dimensions
    if neighbours is Neighbours.ADDED_OR_REMOVED:
        raise UserError(
            "directional noise has no epsilon for neighbours with an example added or removed, since an average of L "
            "- 1 unit vectors has another direction than one of L; set neighbours to replaced or zeroed",
            "EPS-L011",
        )
    if neighbours is Neighbours.REPLACED:
        return Steps((Step(tuple(Opposite(kappa, d) for d in dimensions), rate),), count)
    there, back = tuple(ToUniform(kappa, d) for d in dimensions), tuple(FromUniform(kappa, d) for d in dimensions)
    return Steps((Step(there, rate), Step(back, rate)), count)
