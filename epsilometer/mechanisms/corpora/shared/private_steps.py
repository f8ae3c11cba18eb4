"""The steps of DP-SGD over people: coins, sums of clipped gradients, noise, and the sigma for a target claim.

In each step, each person enters with probability q by a coin of their own. The gradient of a person, whatever the
number of their texts, is clipped to length C. Normal noise of deviation sigma C is added to every number of the sum,
and the noisy sum is divided by the public number q N, for N people (Abadi et al. 2016, algorithm 1). The accountant
gets the same schedule as the coins (`accounting`). Rounding in a release raises the loss (`core.normals`); `noise_for`
adds noise to make up for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.accounting.budget import gaussian_for
from epsilometer.accounting.sampling import by_coins
from epsilometer.accounting.schedule import Poisson
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Neighbours
from epsilometer.core.normals import ROUNDED, normals, on_grid
from epsilometer.core.system import is_system


@dataclass(frozen=True)
class PrivateSteps:
    """The steps of a private training.

    schedule: the schedule of coins, whose number of people is public. sigma: the noise's deviation divided by the
    clipping length. clip: C, the clipping length.
    """

    schedule: Poisson
    sigma: float
    clip: float

    def batch(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the indices of those of `count` people that enter a step, possibly none."""
        return by_coins(self.schedule, count, generator)

    def update(self, gradients: NDArray[np.float32], generator: np.random.Generator) -> NDArray[np.float32]:
        """Return the noisy mean [d] of the gradients [people, d] of a step."""
        over, deviation = float(self.schedule.expected_batch), self.sigma * self.clip
        noise = normals(gradients.shape[1], generator) * (deviation / over)
        noisy: NDArray[np.floating] = self.clipped(gradients).sum(0) / over + noise
        return on_grid(noisy, deviation / over) if is_system(generator) else noisy.astype(np.float32)

    def clipped(self, gradients: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the gradients [people, d], each clipped to length C; 0 for gradients that are not finite."""
        lengths = np.sqrt(np.einsum("nd,nd->n", gradients, gradients, dtype=np.float64))
        finite = np.where(np.isfinite(lengths)[:, None], gradients, 0).astype(np.float64)
        factors = np.divide(self.clip, lengths, out=np.ones_like(lengths), where=lengths > self.clip)
        return finite * factors[:, None]


def noise_for(epsilon: float, delta: float, schedule: Poisson, *, neighbours: Neighbours, size: int) -> float:
    """Return the smallest sigma at which all steps on `size` numbers are (epsilon, delta)-private.

    Rounding changes the probabilities of a step on d numbers by a factor of at most e^eta and a slack of at most tau,
    where eta = 2^-39 d and tau = 2^-48 d. So T rounded steps are private at epsilon and delta if T exact steps are
    private at epsilon - T eta and (delta - T tau (1 + e^epsilon)) e^(-T eta). Raises UserError if rounding alone
    exceeds the claim.
    """
    eta, tau = (share * size * schedule.steps for share in ROUNDED)
    left = (delta - tau * (1 + math.exp(min(epsilon, 700.0)))) * math.exp(-eta)
    if left <= 0 or epsilon <= eta:
        remedy = "a larger epsilon" if epsilon <= eta else "a smaller epsilon, a larger delta"
        raise UserError(
            f"rounding the noise of {schedule.steps:,} steps costs more than epsilon {epsilon:g} at delta {delta:g} "
            f"allows; give {remedy}, or fewer epochs",
            "EPS-M119",
        )
    return gaussian_for(epsilon - eta, schedule, left, neighbours).sigma
