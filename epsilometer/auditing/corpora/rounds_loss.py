"""The loss of all rounds of noisy votes together, in closed form. Losses are in nats.

`private_evolution` has R rounds, and `vote_histogram` and `label_shares` have one. An adversary who sees all R noisy
tables tries to distinguish two corpora that differ in one unit (a person or a text). Given the earlier tables, a round
has the same cells for both corpora. Suppose that at most c = 1 text of a person votes. Then the votes of the two
corpora differ by 1 in each of D cells, where D is at most 2 (neighbours `replaced`) or 1 (`added or removed`). In each
of these cells, the noise of rate r makes the loss r with probability p = 1 / (1 + e^-r), and -r otherwise
(`vote_loss`). So the sum of D such independent losses dominates the loss of a round, whatever the earlier tables were.
Dominating pairs compose adaptively (Zhu, Dong and Wang 2022, theorem 10), so the loss of all rounds is dominated by

    S = r (2 K - R D),   K ~ Binomial(R D, p).

The law of S is exact if the two texts vote for different cells in every round, as two texts with different labels do.
If the texts share a cell in some rounds, S is an upper bound. For c > 1, a round has a pure epsilon of epsilon / R, and
randomised response dominates it (Kairouz, Oh and Viswanath 2015). So S with r = epsilon / R and D = 1 is an upper
bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.shared.base import NoisyVotes


@dataclass(frozen=True)
class RoundsLoss:
    """A sum of independent losses, each `rate` or -`rate`.

    count: the number of losses, R D. exact: True if some pair of corpora has this law, False if the law is only an
    upper bound.
    """

    rate: float
    count: int
    exact: bool

    @classmethod
    def of(cls, mechanism: NoisyVotes, epsilon: float) -> RoundsLoss:
        """Return the law of the loss of a mechanism with Laplace noise at an epsilon."""
        rounds = mechanism.rounds if isinstance(mechanism, PrivateEvolution) else 1
        if mechanism.most > 1:
            return cls(epsilon / rounds, rounds, exact=False)
        cells = 2 if mechanism.neighbours == "replaced" else 1
        return cls(float(mechanism.cell_noise(epsilon).rate), rounds * cells, exact=True)

    def law(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the values of the loss, ascending, and their probabilities."""
        from scipy.stats import binom

        ups = np.arange(self.count + 1)
        losses = np.asarray(self.rate * (2 * ups - self.count), np.float64)
        return losses, binom.pmf(ups, self.count, 1 / (1 + math.exp(-self.rate)))

    def delta(self, level: float) -> float:
        """Return the largest P(S | first) - e^level P(S | second) over sets S of outputs."""
        losses, probabilities = self.law()
        above = losses > level
        return float(probabilities[above] @ -np.expm1(level - losses[above]))

    def guess_loss(self) -> float:
        """Return the log-odds of a right guess between two equally likely corpora by the best adversary."""
        apart = self.delta(0.0)
        return math.log((1 + apart) / (1 - apart))
