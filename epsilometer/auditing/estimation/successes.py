"""The empirical loss, in nats, that successes prove (TeDA, arXiv:2603.22968, Appendix A and Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
import scipy  # loads its parts when they are first used
from numpy.typing import NDArray
from scipy.special import betaincinv

from epsilometer.core.errors import UserError

_BELOW = 1e-6  # level of the test that an attack is below chance


@dataclass(frozen=True)
class Estimate:
    """The privacy loss that an adversary's successes prove, with its interval.

    loss:         the lower bound at confidence 1 - alpha/2 (the paper's figure); 0 means no evidence, not privacy.
    point:        the plug-in value at the observed success rate.
    upper:        the upper bound for this adversary; a better adversary may exceed it.
    ceiling:      the largest `loss` that this number of trials can prove.
    """

    successes: int
    trials: int
    candidates: int
    alpha: float
    delta: float
    loss: float
    point: float
    upper: float
    ceiling: float
    prior: Prior | None = None

    @property
    def success_rate(self) -> float:
        """The share of trials in which the adversary guessed the source."""
        return self.successes / self.trials


Prior = Sequence[float]
"""The probability that the source is in each slot: k numbers that add up to 1."""


def loss_at(success_probability: float, candidates: int, delta: float = 0.0, prior: Prior | None = None) -> float:
    """Return the smallest loss that allows this success probability, at least 0 (TeDA eq. 10).

    prior: the probabilities of the candidates, uniform by default; see `success_bound`.
    """
    if success_probability >= 1:
        return math.inf
    if prior is not None:
        return _loss_by_prior(success_probability, delta, prior)
    odds = (candidates - 1) * (success_probability - delta) / (1 - success_probability)  # TeDA eq. 10
    return math.log(odds) if odds > 1 else 0.0


def success_bound(loss: float, candidates: int, delta: float = 0.0, prior: Prior | None = None) -> float:
    """Return the largest success probability of any adversary under a loss: TeDA eq. 10 solved for the probability.

    Under a prior p, let S(m) be the sum of the m largest probabilities in p. The largest success probability is

        delta + (1 - delta) max over m of e^loss S(m) / (e^loss + m - 1),

    which equals TeDA's bound if p = 1/k.

    Proof: let a_j be the probability that the guess is j if the source is j. Let b_j = (a_j - delta)_+, and let s be
    the sum of all b_j. If the source is j, a guess i != j has a probability of at least e^-loss b_i. The probabilities
    of all guesses add up to at most 1, so a_j + e^-loss (s - b_j) <= 1. Hence each b_j is at most u = (1 - delta -
    e^-loss s) / (1 - e^-loss). The success probability is at most delta plus the sum of p_j b_j. For a given s, this
    sum is largest if the likeliest candidates have b_j = u. As a function of s, the largest sum is piecewise linear,
    with corners where s = m u. So its maximum is at a corner. There u = (1 - delta) e^loss / (e^loss + m - 1), and the
    sum is u S(m). Randomised response among the m likeliest candidates attains the bound for delta = 0. For m = 1 it
    always names the likeliest candidate.
    """
    if loss > 700:
        return 1.0
    if prior is not None:
        sums = accumulate(sorted(prior, reverse=True))
        odds = math.exp(loss)
        return min(1.0, delta + (1 - delta) * max(odds * s / (odds + m) for m, s in enumerate(sums)))
    return min(1.0, (math.exp(loss) + (candidates - 1) * delta) / (math.exp(loss) + candidates - 1))


def _loss_by_prior(success_probability: float, delta: float, prior: Prior) -> float:
    """Return the inverse of `success_bound`: the smallest loss that allows the probability under a prior."""
    p = (success_probability - delta) / (1 - delta)
    if p <= max(prior) * (1 + 1e-12):  # p may have rounding errors
        return 0.0
    sums = enumerate(accumulate(sorted(prior, reverse=True)))
    return min((max(0.0, math.log(p * m / (s - p))) for m, s in sums if m and s > p), default=math.inf)


def clopper_pearson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return the exact two-sided 1 - alpha interval of a binomial proportion (Clopper and Pearson 1934)."""
    low = float(betaincinv(successes, trials - successes + 1, alpha / 2)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - alpha / 2)) if successes < trials else 1.0
    return low, high


def below_chance(successes: int, trials: int, candidates: int) -> bool:
    """Return True if an attack is right significantly less often than blind guessing: an exact binomial test at 1e-6.

    Such an attack distinguishes the candidates but names the wrong one. Between two candidates, the opposite guesses
    would be right more often than by chance, so an upper bound of this attack's success is not an upper bound of the
    loss.
    """
    return float(scipy.stats.binom.cdf(successes, trials, 1 / candidates)) < _BELOW


def estimate(
    successes: int,
    trials: int,
    candidates: int = 2,
    alpha: float = 0.01,
    delta: float = 0.0,
    prior: Prior | None = None,
) -> Estimate:
    """Return the empirical privacy loss behind `successes` of `trials` guesses among `candidates` texts.

    `loss` uses the lower bound of the two-sided 1 - alpha Clopper-Pearson interval (TeDA eq. 11); 10,000 hits in 10,000
    trials at k = 2 and alpha = 0.01 give 7.543 nats. Raises UserError for values outside their range.
    """
    if trials < 1:
        raise UserError(f"trials must be >= 1, got {trials}", "EPS-A069")
    if not 0 <= successes <= trials:
        raise UserError(f"successes must be between 0 and trials ({trials}), got {successes}", "EPS-A070")
    if candidates < 2:
        raise UserError(f"candidates must be >= 2, got {candidates}", "EPS-A071")
    if not 0 < alpha < 1:
        raise UserError(f"alpha must be in (0, 1), got {alpha}", "EPS-A072")
    if not 0 <= delta < 1:
        raise UserError(f"delta must be in [0, 1), got {delta}", "EPS-A073")
    low, high = clopper_pearson(successes, trials, alpha)
    best, _ = clopper_pearson(trials, trials, alpha)
    return Estimate(
        successes=successes,
        trials=trials,
        candidates=candidates,
        alpha=alpha,
        delta=delta,
        prior=prior,
        loss=loss_at(low, candidates, delta, prior),
        point=loss_at(successes / trials, candidates, delta, prior),
        upper=loss_at(high, candidates, delta, prior),
        ceiling=loss_at(best, candidates, delta, prior),
    )


def strongest(estimates: Sequence[Estimate]) -> Estimate:
    """Return the best of several attacks on the same trials, at the level alpha / m for m attacks (Bonferroni).

    The best of several attacks is selected by its successes, so its interval must be wider than that of one attack
    chosen beforehand. The result's `alpha` is the corrected level.
    """
    best = max(estimates, key=lambda estimate: estimate.successes)
    alpha = best.alpha / len(estimates)
    return estimate(best.successes, best.trials, best.candidates, alpha, delta=best.delta, prior=best.prior)


class Rates(NamedTuple):
    """Counts for one candidate: trials with it as the source, other trials, and guesses of it (`loss_by_rates`)."""

    true_positives: int
    positives: int
    false_positives: int
    negatives: int

    @classmethod
    def of_first_slot(cls, guess: NDArray[np.integer], target: NDArray[np.integer]) -> Self:
        """Return the counts for the first candidate of every trial. guess, target: slots [trials]."""
        first, named = target == 0, guess == 0
        return cls(*(int(count.sum()) for count in (first & named, first, ~first & named, ~first)))

    @property
    def point(self) -> float:
        """The plug-in loss ln(TPR / FPR), at least 0; infinite without false positives."""
        if not self.positives or self.true_positives * self.negatives <= self.false_positives * self.positives:
            return 0.0
        if not self.false_positives:
            return math.inf
        return math.log(self.true_positives / self.positives * self.negatives / self.false_positives)

    def loss(self, alpha: float) -> float:
        """Return the lower bound `loss_by_rates`; 0 without positives or negatives."""
        return loss_by_rates(*self, alpha) if self.positives and self.negatives else 0.0


def loss_by_rates(
    true_positives: int, positives: int, false_positives: int, negatives: int, alpha: float = 0.01, delta: float = 0.0
) -> float:
    """Return the lower bound by true and false positive rates (Arcolezi and Gambs 2024), a baseline in TeDA.

    positives: number of trials whose source is the candidate in question. true_positives: number of positives in which
    this candidate was guessed. negatives: number of trials with another source. false_positives: number of negatives in
    which this candidate was guessed. The result is ln((TPR - delta) / FPR), from a lower bound of TPR and an upper
    bound of FPR. Each of these two is Clopper and Pearson's, at error alpha/4 as in the published code. So the result
    has confidence 1 - alpha/2, as in `estimate`. The result is 0 without evidence.
    """
    low, _ = clopper_pearson(true_positives, positives, alpha / 2)
    _, high = clopper_pearson(false_positives, negatives, alpha / 2)
    return math.log((low - delta) / high) if low - delta > high else 0.0
