"""The inverse function G of a privacy profile, computed from its definition."""

from __future__ import annotations

import math

from epsilometer.studies.training.one_run.fdp import Profile


def least_share(profile: Profile, share: float) -> float:
    """Return the smallest y >= 0 at which F(y) reaches a share, over every pair of the profile."""
    pairs = zip(profile.epsilons, profile.deltas, strict=True)
    return max(0.0, *((share - delta) * math.exp(-epsilon) for epsilon, delta in pairs))
