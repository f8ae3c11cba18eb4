"""Estimates from posteriors instead of hits, where the law is known (Rao and Blackwell). Losses are in nats.

The source is uniform among the candidates x_1, ..., x_k, and the output y has the density P(y | x_j). A guess g(y) of
any adversary, however it was made, is right with probability

    pi_g(y) = P(y | x_g) / sum over j of P(y | x_j)        given y and the candidates.

So the mean of pi_g over trials has the expectation of the success rate and is never more variable (Blackwell 1947). P
must be the law of everything that the adversary sees: its view must be a function of y, otherwise the posterior
is not that of its guess.

**It relies on the declared law.** A sampler that departs from its law does not show in pi_g, so `loss`, verdicts and
drift use hits. Given the outputs of all trials the hits are independent coins of the probabilities pi_g if the sampler
follows its law. Their number then has a Poisson binomial distribution: an exact test of the law (`departure`), or one
that stays valid when it is read after every batch (`LawTest`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import NDArray
from scipy.special import logsumexp

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.counting import distinct
from epsilometer.auditing.estimation.successes import clopper_pearson, loss_at

DEPARTS = "sampler departs from its law"

_OFTEN = 1024  # number of equal posteriors from which their hits are counted as a binomial number
_NEGLIGIBLE = 1e-18  # probability of the tails of a law that are left out
_TILTS = np.array([sign * t for t in np.geomspace(0.03, 4, 8) for sign in (-1, 1)])  # of the log-odds of a hit


@dataclass(frozen=True)
class Averaged:
    """The loss by averaged posteriors; `successes.Estimate` is that by hits."""

    loss: float
    point: float
    upper: float


def averaged(successes: int, posteriors: NDArray[np.float64], candidates: int, alpha: float = 0.01) -> Averaged:
    """Return the loss behind guesses with these posteriors [n] and number of hits; at confidence 1 - alpha/2.

    At each end the better of the betting interval of the posteriors and the Clopper-Pearson interval of the hits, of
    level alpha/2 each: near the ceiling the hits prove more, otherwise the posteriors.
    """
    bet = interval(posteriors, alpha / 2, fixed=True)
    counted = clopper_pearson(successes, len(posteriors), alpha / 2)
    low, high = max(bet[0], counted[0]), min(bet[1], counted[1])
    return Averaged(*(loss_at(p, candidates) for p in (low, float(posteriors.mean()), high)))


def departure(successes: int, posteriors: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of the hits if each is a coin of its posterior [n]: exact up to 1e-12.

    0 where an output is impossible under every candidate, and its posterior is NaN. Equal posteriors are counted
    together, so a mechanism of few outputs takes no longer for more trials.
    """
    if np.isnan(posteriors).any():
        return 0.0
    values, counts = distinct(posteriors)
    often = counts >= _OFTEN
    hits = [_of_equal(int(n), float(p)) for p, n in zip(values[often], counts[often], strict=True)]
    if not often.all():
        hits.append(_of_different(np.repeat(values[~often], counts[~often])))
    while len(hits) > 1:
        left = hits[-1:] if len(hits) % 2 else []
        hits = [even + odd for even, odd in zip(hits[::2], hits[1::2], strict=False)] + left
    return hits[0].two_sided(successes)


@dataclass(frozen=True)
class _Hits:
    """The law of a number of hits: chances[i] of fewest + i, without tails of negligible probability."""

    fewest: int
    chances: NDArray[np.float64]

    def __add__(self, other: _Hits) -> _Hits:
        """Return the law of the sum of two."""
        from scipy.signal import fftconvolve  # takes a second to load, which reading the report's tables does not need

        return _Hits(self.fewest + other.fewest, np.maximum(fftconvolve(self.chances, other.chances), 0))

    def two_sided(self, hits: int) -> float:
        """Return the p-value of this number of hits."""
        place = hits - self.fewest
        at_most, at_least = self.chances[: max(0, place + 1)].sum(), self.chances[max(0, place) :].sum()
        return float(min(1.0, 2 * min(at_most, at_least)))


def _of_equal(coins: int, p: float) -> _Hits:
    fewest, most = (
        int(scipy.stats.binom.ppf(_NEGLIGIBLE, coins, p)),
        coins - int(scipy.stats.binom.ppf(_NEGLIGIBLE, coins, 1 - p)),
    )
    return _Hits(fewest, scipy.stats.binom.pmf(np.arange(fewest, most + 1), coins, p))


def _of_different(p: NDArray[np.float64]) -> _Hits:
    """Return the law for coins with these probabilities [n], which are summed in pairs."""
    from scipy.signal import fftconvolve

    chances = np.stack([1 - p, p], axis=1)  # [sums of hits, how many]
    while len(chances) > 1:
        if len(chances) % 2:
            chances = np.vstack([chances, np.eye(1, chances.shape[1])])
        chances = np.maximum(fftconvolve(chances[::2], chances[1::2], axes=1), 0)
    return _Hits(0, chances[0])


class LawTest:
    """A test that a sampler follows its law, which stays valid when it is read after every batch.

    The bettors' coins have log-odds that are larger or smaller than those of the posteriors by t, for several t: each
    batch multiplies their wealth by the likelihood ratio, which has the expectation 1 under the law, so it ever reaches
    1 / alpha with probability at most alpha (Ville 1939).
    """

    def __init__(self) -> None:
        self._bets = np.zeros(len(_TILTS))

    def add(self, successes: int, posteriors: NDArray[np.float64]) -> None:
        """Settle the bets on a batch of n posteriors with this number of hits."""
        odds = 1 + np.multiply.outer(np.expm1(_TILTS), posteriors)
        self._bets += successes * _TILTS - np.log(odds).sum(axis=1)

    def refutes(self, alpha: float) -> bool:
        """Return True if the law is refuted by now; ever wrongly with probability at most alpha."""
        return not self.log_wealth < math.log(1 / alpha)

    @property
    def log_wealth(self) -> float:
        """ln wealth of all bets together, 0 at first; NaN after an output that is impossible under every candidate."""
        return float(logsumexp(self._bets)) - math.log(len(_TILTS))
