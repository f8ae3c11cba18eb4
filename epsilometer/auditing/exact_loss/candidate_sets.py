"""The loss of guessing the source among k > 2 texts, estimated from draws. Bounds by pairs are a factor of k - 1 apart.

Among the equally likely texts of a set, an optimal adversary errs with probability

    e = 1/k sum over y of (S(y) - max over j of P_j(y)),    S = P_1 + ... + P_k.

**Units with laws.** Let rho_ij = sum over y of sqrt(P_i P_j), and let Z be the sum of rho_ij over the pairs of a set.
Choosing a pair with probability rho_ij / Z, and then an output from sqrt(P_i P_j) / rho_ij (`core/between.py`), draws
from Q = (sum over pairs of sqrt(P_i P_j)) / Z. Then

    w = (S - max P) / (sum over pairs of sqrt(P_i P_j))    has the mean k e / Z,    0 <= w <= 1:

because every P_j except the largest is at most sqrt(P_j max P), which is a term of the sum. So a large loss takes no
more draws than a small one.

**Only a likelihood** (generated text, hidden coins). y is a rewrite of a text chosen uniformly from the set, so it is
drawn from Q = S / k. w = (S - max P) / S has the mean e, and n draws prove a loss of at most about ln n.

Only the mean over the sets is estimated, so each set is drawn in proportion to its weight in that mean. The interval is
by betting.
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
from epsilometer.auditing.exact_loss.importance import AT_LEAST, IMPORTANCE, Sampling, of_own_rewrites, stages
from epsilometer.auditing.exact_loss.losses import Effort, Request
from epsilometer.auditing.exact_loss.pairs import CandidateSets
from epsilometer.auditing.exact_loss.rows import ALL, EQUAL
from epsilometer.core.between import tilted
from epsilometer.core.guarantees import restored
from epsilometer.core.laws import Laws, log_likelihood
from epsilometer.core.mechanism import HasLaws, Mechanism
from epsilometer.core.randomness import Noise

Array = NDArray[np.float64]
_NAT = 1.0  # nats: the upper end of a wider interval is not worth stating
_FIRST = 200  # draws before the interval is first computed
_CHOICE = 1 << 33  # the number of the uniform that chooses, beyond all numbers that mechanisms use

Weigh = Callable[[Noise], Array]
"""Maps the streams of n draws to their weights w [n]."""


@dataclass(frozen=True)
class MeanLoss:
    """The loss in nats at the mean error of the sets, at confidence 1 - alpha; the number of draws, and the method."""

    loss: Bracket[float]
    draws: int
    method: str


def mean_loss(
    mechanism: Mechanism, texts: Sequence[str], sets: CandidateSets, epsilon: float, sampling: Sampling
) -> MeanLoss:
    """Returns the loss of guessing among the k texts of each set, at the mean error over the sets.

    The mechanism must have laws or a likelihood. The interval is valid after every stage of draws; they stop once it is
    as narrow as `sampling.width`.
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
    """Returns a row of `EXACT` with its bounds by pairs replaced by the average over sets of texts.

    The row of equal length then describes the sets whose texts all have equally many words. It is returned unchanged if
    there are none, and so is any row whose bounds are already narrow.
    """
    share = 1.0
    if row["pairs"] == EQUAL:
        sets, share = sets.of_equal_length(asked.texts)
    if not share or math.isinf(row["average_low"]) or row["average_high"] - row["average_low"] <= 2 * effort.width:
        return row
    sampling = Sampling(width=2 * effort.width, draws=effort.draws, first=min(_FIRST, effort.draws))
    mean = mean_loss(asked.mechanism, asked.texts, sets, restored(row["epsilon"]), sampling=sampling)
    low, high = mean.loss.low, mean.loss.high
    if row["pairs"] == ALL:  # both intervals hold; the bounds by pairs hold for certain
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
    """Returns ln((1 - e) (k - 1) / e), at least 0, for e = e^log_scale times the mean."""

    def of(weight: float) -> float:
        if not weight:
            return math.inf
        log_error = min(log_scale + math.log(weight), math.log1p(-1 / k))
        return max(0.0, math.log(k - 1) + math.log1p(-math.exp(log_error)) - log_error)

    return Bracket(of(mean.high), of(mean.low))


def _by_laws(laws: Laws, sets: CandidateSets, epsilon: float) -> tuple[Weigh, float]:
    """Returns how to draw weights, and ln of the factor that turns their mean into the mean error."""
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
        log_p = of_own_rewrites(mechanism, texts, candidates, rewrites, epsilon=epsilon)
        return _weight(log_p.T, np.logaddexp.reduce(log_p.T))

    return weigh


def _weight(log_p: Array, log_sum: Array) -> Array:
    """Returns the [n] weights: the sum of all but the largest of P [k, n], as a share of a sum that is no smaller."""
    others = np.logaddexp.reduce(np.sort(log_p, axis=0)[:-1])
    return np.asarray(np.minimum(np.exp(others - log_sum), 1.0))
