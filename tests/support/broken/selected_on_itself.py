"""Broken: computes the bound of the best arm from the same trials that selected it."""

from __future__ import annotations

import numpy as np

from epsilometer.auditing.estimation.halving import Pull, Survivor


def search(pull: Pull, arms: int, budget: int) -> Survivor:
    hits = pull(np.arange(arms), 0, budget // arms)  # [arms, trials, attacks]
    arm, attack = np.unravel_index(hits.sum(axis=1).argmax(), (arms, hits.shape[2]))
    return Survivor(int(arm), int(attack), hits[arm, :, attack], budget)
