"""What guesses prove where the law is known: posteriors instead of hits (Rao and Blackwell). Losses are in nats.

The source is uniform among the candidates x_1, ..., x_k, and the output y has the density P(y | x_j). A guess g(y) of
any adversary, however it was made, is right with probability

    pi_g(y) = P(y | x_g) / sum over j of P(y | x_j)        given y and the candidates.

So the mean of pi_g over trials has the expectation of the success rate and is never more variable (Blackwell 1947). P
must be the law of all that the adversary sees: everything it looks at must be a function of y, otherwise the posterior
is not that of its guess.

**It relies on the declared law.** A sampler that departs from its law does not show in pi_g, so `loss`, verdicts and
drift use hits. Given the outputs of all trials the hits are independent coins of the probabilities pi_g if the sampler
follows its law. Their number then has a Poisson binomial distribution: an exact test of the law (`departure`), or one
that may be looked at after every batch (`LawTest`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import clopper_pearson, loss_at

DEPARTS = "sampler departs from its law"

_TILTS = np.array([sign * t for t in np.geomspace(0.03, 4, 8) for sign in (-1, 1)])  # of the log odds of a hit


@dataclass(frozen=True)
class Averaged:
    """The loss by averaged posteriors, as `successes.Estimate` has it by hits."""

    loss: float
    point: float
    upper: float


def averaged(
    successes: int, posteriors: NDArray[np.float64], candidates: int, alpha: float = 0.01, delta: float = 0.0
) -> Averaged:
    """The loss behind guesses with these posteriors [n], of which so many were hits; at confidence 1 - alpha/2.

    The better at each end of the betting interval of the posteriors and the Clopper-Pearson interval of the hits, of
    level alpha/2 each: near the ceiling the hits prove more, else the posteriors.
    """
    bet = interval(posteriors, alpha / 2, fixed=True)
    counted = clopper_pearson(successes, len(posteriors), alpha / 2)
    low, high = max(bet[0], counted[0]), min(bet[1], counted[1])
    return Averaged(*(loss_at(p, candidates, delta) for p in (low, float(posteriors.mean()), high)))


def departure(successes: int, posteriors: NDArray[np.float64]) -> float:
    """The two-sided p-value of so many hits if each is a coin of its posterior [n]: exact up to 1e-12.

    0 where an output is impossible under every candidate, and its posterior no number.
    """
    if np.isnan(posteriors).any():
        return 0.0
    from scipy.signal import fftconvolve  # takes a second to load, which reading the report's tables does not need

    counts = np.stack([1 - posteriors, posteriors], axis=1)  # [sums of hits, how many]
    while len(counts) > 1:
        if len(counts) % 2:
            counts = np.vstack([counts, np.eye(1, counts.shape[1])])
        counts = np.maximum(fftconvolve(counts[::2], counts[1::2], axes=1), 0)
    at_most, at_least = counts[0, : successes + 1].sum(), counts[0, successes:].sum()
    return float(min(1.0, 2 * min(at_most, at_least)))


class LawTest:
    """Whether a sampler follows its law, for one who looks after every batch.

    Against coins of the posteriors bet coins whose log odds are larger or smaller by t, for several t: each batch
    multiplies their wealth by the likelihood ratio, which has the expectation 1 under the law, so that it ever reaches
    1 / alpha with probability at most alpha (Ville 1939).
    """

    def __init__(self) -> None:
        self._bets = np.zeros(len(_TILTS))

    def add(self, successes: int, posteriors: NDArray[np.float64]) -> None:
        """Settle the bets on a batch of n posteriors, so many of them hits."""
        odds = 1 + np.multiply.outer(np.expm1(_TILTS), posteriors)
        self._bets += successes * _TILTS - np.log(odds).sum(axis=1)

    def refutes(self, alpha: float) -> bool:
        """Whether the law is refuted by now; wrongly ever with probability at most alpha."""
        return not self.log_wealth < math.log(1 / alpha)

    @property
    def log_wealth(self) -> float:
        """Of all bets together, 0 at first; not a number after an output that is impossible under every candidate."""
        return float(logsumexp(self._bets)) - math.log(len(_TILTS))
