"""Estimates from posteriors instead of hits, if the law is known (Rao and Blackwell). Losses are in nats.

The source is uniform among the candidates x_1, ..., x_k, and the output y has the density P(y | x_j). A guess g(y) of
any adversary is right with probability

    pi_g(y) = P(y | x_g) / sum over j of P(y | x_j)        given y and the candidates.

So the mean of pi_g over trials has the same expectation as the success rate, and a variance that is at most as large
(Blackwell 1947). P must be the law of everything that the adversary sees. If the adversary's view is not a function of
y, the posterior of the guess is different.

**Posteriors rely on the stated law.** pi_g does not show whether a sampler follows its law, so `loss`, verdicts and
drift use hits. Suppose that the sampler follows its law. Then, given the outputs of all trials, the hits are
independent coins with probabilities pi_g, and the number of hits has a Poisson binomial distribution. This gives an
exact test of the law (`departure`), and a test that is valid after every batch (`LawTest`).
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

_OFTEN = 1024  # if at least this many posteriors are equal, the number of their hits is treated as binomial
_NEGLIGIBLE = 1e-18  # probability of the omitted tails of a law
_TILTS = np.array([sign * t for t in np.geomspace(0.03, 4, 8) for sign in (-1, 1)])  # shifts of the log-odds of a hit


@dataclass(frozen=True)
class Averaged:
    """The loss by averaged posteriors, with the same fields as the loss by hits (`successes.Estimate`)."""

    loss: float
    point: float
    upper: float


def averaged(successes: int, posteriors: NDArray[np.float64], candidates: int, alpha: float = 0.01) -> Averaged:
    """Return the loss that n guesses with these posteriors [n] prove, each bound at confidence 1 - alpha/2.

    Each bound is the tighter of two: one from the betting interval of the posteriors, and one from the Clopper-Pearson
    interval of the hits, both at level alpha/2. Hits prove more near the largest provable loss; elsewhere, posteriors
    prove more.
    """
    bet = interval(posteriors, alpha / 2, fixed=True)
    counted = clopper_pearson(successes, len(posteriors), alpha / 2)
    low, high = max(bet[0], counted[0]), min(bet[1], counted[1])
    return Averaged(*(loss_at(p, candidates) for p in (low, float(posteriors.mean()), high)))


def departure(successes: int, posteriors: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of the number of hits, if posteriors [n] are their probabilities; exact up to 1e-12.

    Returns 0 if some posterior is NaN, because the output is then impossible under every candidate. Equal posteriors
    are counted together, so for a mechanism with few outputs the time does not depend on the number of trials.
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
    """The law of a number of hits: `fewest + i` hits have probability `chances[i]`. Negligible tails are omitted."""

    fewest: int
    chances: NDArray[np.float64]

    def __add__(self, other: _Hits) -> _Hits:
        """Return the law of the sum of both numbers."""
        from scipy.signal import fftconvolve  # takes a second to load, and reports do not need it

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
    """Return the law of the number of hits among coins with these probabilities [n], summed pair by pair."""
    from scipy.signal import fftconvolve

    chances = np.stack([1 - p, p], axis=1)  # [sums, number of hits]
    while len(chances) > 1:
        if len(chances) % 2:
            chances = np.vstack([chances, np.eye(1, chances.shape[1])])
        chances = np.maximum(fftconvolve(chances[::2], chances[1::2], axes=1), 0)
    return _Hits(0, chances[0])


class LawTest:
    """A test, valid after every batch, that a sampler follows its law.

    There are several bettors, each with a different t: a bettor assumes that the log-odds of hits differ from the
    posteriors' log-odds by t. Each batch multiplies a bettor's wealth by the likelihood ratio, whose expectation is 1
    under the law. So the probability that the wealth ever reaches 1 / alpha is at most alpha (Ville 1939).
    """

    def __init__(self) -> None:
        self._bets = np.zeros(len(_TILTS))

    def add(self, successes: int, posteriors: NDArray[np.float64]) -> None:
        """Settle the bets on a batch of guesses with these posteriors [n] and this number of hits."""
        odds = 1 + np.multiply.outer(np.expm1(_TILTS), posteriors)
        self._bets += successes * _TILTS - np.log(odds).sum(axis=1)

    def refutes(self, alpha: float) -> bool:
        """Return True if the law is refuted so far. A true law is ever refuted with probability at most alpha."""
        return not self.log_wealth < math.log(1 / alpha)

    @property
    def log_wealth(self) -> float:
        """ln of the bettors' mean wealth, 0 at the start; NaN after an output that no candidate could give."""
        return float(logsumexp(self._bets)) - math.log(len(_TILTS))
