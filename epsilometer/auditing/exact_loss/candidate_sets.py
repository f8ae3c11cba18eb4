"""The loss of guessing the source among k > 2 texts, from draws: bounds by pairs are a factor of k - 1 apart.

An optimal adversary errs among the equally likely texts of a set with the probability

    e = 1/k sum over y of (S(y) - max over j of P_j(y)),    S = P_1 + ... + P_k.

**Units with laws.** Let rho_ij = sum over y of sqrt(P_i P_j) and Z the sum of rho_ij over the pairs of a set. A pair is
chosen with probability rho_ij / Z and an output from sqrt(P_i P_j) / rho_ij (`core/between.py`): a draw from
Q = (sum over pairs of sqrt(P_i P_j)) / Z. Then

    w = (S - max P) / (sum over pairs of sqrt(P_i P_j))    has the mean k e / Z,    0 <= w <= 1:

every P_j but the largest is at most sqrt(P_j max P), a term of the sum. So losses of any size cost alike.

**Only a likelihood** (generated text, hidden coins). y comes from Q = S / k, as a rewrite of a text of the set chosen
uniformly; w = (S - max P) / S has the mean e, and n draws prove a loss of at most about ln n.

Sets are drawn as likely as they weigh in the mean, for the mean alone is estimated. Its interval is by betting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.auditing.exact_loss.importance import AT_LEAST, IMPORTANCE, Sampling, stages
from epsilometer.auditing.exact_loss.losses import Effort, Request
from epsilometer.auditing.exact_loss.pairs import CandidateSets
from epsilometer.auditing.exact_loss.rows import ALL, EQUAL
from epsilometer.core.between import tilted
from epsilometer.core.guarantees import restored
from epsilometer.core.laws import Laws, log_likelihood
from epsilometer.core.mechanism import HasLaws, HasLikelihood, Mechanism
from epsilometer.core.randomness import Noise

Array = NDArray[np.float64]
_NAT = 1.0  # a loss that is open by more has no upper end worth a name
_FIRST = 200  # draws before one looks
_CHOICE = 1 << 33  # the number of the uniform that chooses, behind all that mechanisms use

Weigh = Callable[[Noise], Array]
"""Streams of n draws -> [n], the weights w."""


@dataclass(frozen=True)
class MeanLoss:
    """The loss at the mean error of the sets, in nats, at confidence 1 - alpha; how many draws, and by which method."""

    loss: Bracket[float]
    draws: int
    method: str


def mean_loss(
    mechanism: Mechanism, texts: Sequence[str], sets: CandidateSets, epsilon: float, sampling: Sampling
) -> MeanLoss:
    """The loss of guessing among the k texts of each set, at the mean error over the sets.

    The mechanism has laws, or a likelihood. One may look at its interval after every stage, and draws end at the width.
    """
    given: object = mechanism
    if isinstance(given, HasLaws):
        weigh, log_scale = _by_laws(given.laws(texts), sets, epsilon)
    else:
        weigh, log_scale = _by_likelihood(mechanism, texts, sets, epsilon), 0.0
    weights = np.empty(0)
    loss = Bracket(math.inf, math.inf)
    if np.isneginf(log_scale):  # no two texts of a set share an output
        return MeanLoss(loss, 0, IMPORTANCE)
    for count in stages(sampling):
        numbers = len(weights) + np.arange(count)
        weights = np.append(weights, weigh(Noise.named(numbers, "exact loss", "candidate sets", epsilon)))
        loss = _loss(Bracket(*interval(weights, sampling.alpha)), log_scale, sets.numbers.shape[1])
        if loss.high - loss.low <= sampling.width:
            break
    return MeanLoss(loss, len(weights), IMPORTANCE if loss.high - loss.low <= _NAT else AT_LEAST)


def among_sets(row: dict[str, Any], asked: Request, sets: CandidateSets, effort: Effort) -> dict[str, Any]:
    """A row of `EXACT` with the average over sets of texts, in the place of its bounds by pairs.

    The row of equal length is then of the sets whose texts all have equally many words, and stays as it is where there
    are none, as does one whose bounds are narrow already.
    """
    share = 1.0
    if row["pairs"] == EQUAL:
        sets, share = sets.of_equal_length(asked.texts)
    if not share or math.isinf(row["average_low"]) or row["average_high"] - row["average_low"] <= 2 * effort.width:
        return row
    sampling = Sampling(width=2 * effort.width, draws=effort.draws, first=min(_FIRST, effort.draws))
    mean = mean_loss(asked.mechanism, asked.texts, sets, restored(row["epsilon"]), sampling=sampling)
    low, high = mean.loss.low, mean.loss.high
    if row["pairs"] == ALL:  # both hold, and the bounds by pairs without an error
        low, high = max(low, row["average_low"]), min(high, row["average_high"])
    settled = mean.method == IMPORTANCE or high - low <= _NAT
    return row | {
        "share": share,
        "average": (low + high) / 2 if settled else low,
        "average_low": low,
        "average_high": high,
        "method": IMPORTANCE if settled else AT_LEAST,
        "error": (high - low) / 2 if settled else None,
    }


def _loss(mean: Bracket[float], log_scale: float, k: int) -> Bracket[float]:
    """ln((1 - e) (k - 1) / e) for e = e^log_scale times the mean; at least 0."""

    def of(weight: float) -> float:
        if not weight:
            return math.inf
        log_error = min(log_scale + math.log(weight), math.log1p(-1 / k))
        return max(0.0, math.log(k - 1) + math.log1p(-math.exp(log_error)) - log_error)

    return Bracket(of(mean.high), of(mean.low))


def _by_laws(laws: Laws, sets: CandidateSets, epsilon: float) -> tuple[Weigh, float]:
    """How to draw weights, and ln of what their mean is multiplied by for the mean error."""
    sides = list(combinations(range(sets.numbers.shape[1]), 2))
    of_sets = np.concatenate([sets.numbers[:, list(side)] for side in sides])  # side by side, each [sets, 2]
    pairs, place = np.unique(np.sort(of_sets, axis=1), axis=0, return_inverse=True)
    one_of_each = Noise.named(-1 - np.arange(len(pairs)), "exact loss", "candidate sets", epsilon)
    log_rho = tilted(laws, pairs, epsilon, one_of_each)[1].log_rho[place.ravel()]
    with np.errstate(divide="ignore"):
        log_shares = log_rho + np.tile(np.log(sets.weights), len(sides))
    if np.isneginf(peak := log_shares.max()):
        return (lambda noise: np.zeros(len(noise))), -math.inf
    cdf = np.cumsum(np.exp(log_shares - peak))

    def weigh(noise: Noise) -> Array:
        at = np.minimum(noise.uniforms(1, _CHOICE)[:, 0] * cdf[-1], np.nextafter(cdf[-1], 0))
        chosen = np.searchsorted(cdf, at, side="right")
        units, _ = tilted(laws, of_sets[chosen], epsilon, noise)
        candidates = sets.numbers[chosen % len(sets.numbers)]
        log_p = np.stack([log_likelihood(laws, text, [units], [epsilon])[0] for text in candidates.T])
        return _weight(log_p, np.logaddexp.reduce([(log_p[i] + log_p[j]) / 2 for i, j in sides]))

    return weigh, float(peak + math.log(cdf[-1]) - math.log(sets.numbers.shape[1]))


def _by_likelihood(mechanism: Mechanism, texts: Sequence[str], sets: CandidateSets, epsilon: float) -> Weigh:
    cdf, k = np.cumsum(sets.weights), sets.numbers.shape[1]

    def weigh(noise: Noise) -> Array:
        which, slot = noise.uniforms(2, _CHOICE).T
        candidates = sets.numbers[np.minimum(np.searchsorted(cdf, which, side="right"), len(cdf) - 1)]
        sources = candidates[np.arange(len(candidates)), (slot * k).astype(int)]
        rewrites = mechanism.rewrite([texts[i] for i in sources], epsilon, noise)
        assert isinstance(mechanism, HasLikelihood)
        (log_p,) = mechanism.log_likelihoods(texts, candidates, [rewrites], [epsilon])
        return _weight(log_p.T, np.logaddexp.reduce(log_p.T))

    return weigh


def _weight(log_p: Array, log_sum: Array) -> Array:
    """[n]: what all but the largest of P [k, n] make of a sum that exceeds it."""
    others = np.logaddexp.reduce(np.sort(log_p, axis=0)[:-1])
    return np.asarray(np.minimum(np.exp(others - log_sum), 1.0))
