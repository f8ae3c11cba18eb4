"""The loss of guessing the source among k > 2 texts, estimated from draws.

The losses of pairs alone bound the error among k texts only to within a factor of k - 1. So the error is estimated from
draws of outputs. Let P_j(y) be the probability of output y for text j of a set. If the k texts are equally likely, an
optimal adversary errs with probability

    e = 1/k sum over y of (S(y) - max over j of P_j(y)),    S = P_1 + ... + P_k.

**Units with laws.** Let rho_ij = sum over y of sqrt(P_i P_j), and let Z be the sum of rho_ij over the pairs of a set.
A pair is chosen with probability rho_ij / Z, and then an output is drawn from sqrt(P_i P_j) / rho_ij
(`core/between.py`). So the output has the law Q = (sum over pairs of sqrt(P_i P_j)) / Z, and the weight

    w = (S - max P) / (sum over pairs of sqrt(P_i P_j))    has the mean k e / Z,    0 <= w <= 1:

because every P_j except the largest is at most sqrt(P_j max P), which is a term of the sum in the denominator. Z is
computed exactly. It usually falls about as fast as e, so the mean of w does not vanish if e is tiny. Then a large loss
takes no more draws than a small loss.

**Only a likelihood** (generated text, or random choices that the output does not reveal). The output y is a rewrite of
a text chosen uniformly from the set, so y is drawn from Q = S / k. Then w = (S - max P) / S has the mean e, and n draws
prove a loss of at most about ln n.

Only the mean over the sets is estimated, so each set is drawn in proportion to its weight in that mean. The interval is
by betting.

**All sets.** The trials contain few of all possible sets. So a second interval covers all sets that trials can draw
(`over_all`). It uses one draw per trial, of w Z / k (with laws) or of w (with a likelihood). The mean over draws and
trials together is e. The second interval proves a loss of at most about ln of the number of trials, since sets outside
the trials are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.exact_loss.bracket import Bracket
from epsilometer.auditing.exact_loss.importance import AT_LEAST, IMPORTANCE, Sampling, of_own_rewrites, stages
from epsilometer.auditing.exact_loss.losses import Effort, Request
from epsilometer.auditing.exact_loss.pairs import CandidateSets
from epsilometer.auditing.exact_loss.rows import ALL, ALPHA, EQUAL
from epsilometer.core.between import tilted
from epsilometer.core.guarantees import restored
from epsilometer.core.laws import Laws, log_likelihood
from epsilometer.core.mechanism import HasLaws, Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.text.words import words

Array = NDArray[np.float64]
_NAT = 1.0  # an interval wider than this, in nats, is reported as "at least"
_FIRST = 200  # draws before the interval is first computed
_CHOICE = 1 << 33  # index of the uniform that chooses a set; mechanisms use smaller indices

Weigh = Callable[[Noise], Array]
"""Maps the streams of n draws to their weights w [n]."""


@dataclass(frozen=True)
class MeanLoss:
    """The loss in nats at the mean error of the sets (an interval), the number of draws, and the method."""

    loss: Bracket[float]
    draws: int
    method: str


def mean_loss(
    mechanism: Mechanism, texts: Sequence[str], sets: CandidateSets, epsilon: float, sampling: Sampling
) -> MeanLoss:
    """Return the loss of guessing among the k texts of each set, at the mean error over the sets.

    The mechanism must have laws or a likelihood. The interval is valid after every stage of draws, and draws
    stop once it is as narrow as `sampling.width`.
    """
    lawful: object = mechanism
    if isinstance(lawful, HasLaws):
        weigh, log_scale = _Lawful(lawful.laws(texts), sets.numbers, epsilon).over_sets(sets.weights)
    else:
        cdf = np.cumsum(sets.weights)

        def weigh(noise: Noise) -> Array:
            chosen = np.searchsorted(cdf, noise.uniforms(1, _CHOICE)[:, 0], side="right")
            return _by_likelihood(mechanism, texts, sets.numbers[np.minimum(chosen, len(cdf) - 1)], (epsilon, noise))

        log_scale = 0.0
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


def over_all(
    mechanism: Mechanism, texts: Sequence[str], sets: CandidateSets, epsilon: float, most: int
) -> Bracket[float]:
    """Return a 99 % interval of the loss at the mean error over all sets that trials can draw.

    Each of the first `most` trials gives one draw.
    """
    lawful, trials, k = cast(object, mechanism), sets.trials[:most], sets.numbers.shape[1]
    noise = Noise.named(np.arange(len(trials)), "exact loss", "all sets", epsilon)
    if isinstance(lawful, HasLaws):
        weights = _Lawful(lawful.laws(texts), sets.numbers, epsilon).one_each(trials, noise)
        return _loss(Bracket(*interval(weights, ALPHA)), math.log((k - 1) / 2), k)
    weights = _by_likelihood(mechanism, texts, sets.numbers[trials], (epsilon, noise))
    return _loss(Bracket(*interval(weights, ALPHA)), 0.0, k)


def among_sets(row: dict[str, Any], request: Request, sets: CandidateSets, effort: Effort) -> dict[str, Any]:
    """Return a row of `EXACT` in which the average over sets of texts replaces the bounds from losses of pairs.

    The row for equal length then describes the sets whose texts all have equally many words. If there are no such sets,
    that row is returned unchanged. If the bounds from pairs are already narrow, they stay. The interval over all sets
    that trials can draw is widened, if necessary, to contain the bracket of the average over the compared sets.
    """
    share = 1.0
    if row["pairs"] == EQUAL:
        sets, share = sets.of_equal_length(request.texts)
    if not share:
        return row
    every = over_all(request.mechanism, request.texts, sets, restored(row["epsilon"]), most=effort.draws)
    row = _compared(row, request, sets, effort, share=share)
    method = f"{row['method']}, {len(sets.numbers):,} of {_count(request.texts, row['pairs'], sets):,} sets"
    ends = {"all_low": min(every.low, row["average_low"]), "all_high": max(every.high, row["average_high"])}
    return row | ends | {"method": method}


def _count(texts: Sequence[str], group: str, sets: CandidateSets) -> int:
    """Return the number of possible sets, either of any texts or of texts with equally many words."""
    k = sets.numbers.shape[1]
    counts = [len(texts)] if group == ALL else np.unique([len(words(text)) for text in texts], return_counts=True)[1]
    return sum(math.comb(int(count), k) for count in counts)


def _compared(
    row: dict[str, Any], request: Request, sets: CandidateSets, effort: Effort, *, share: float
) -> dict[str, Any]:
    """Return the row with the average over the sets of the trials."""
    if math.isinf(row["average_low"]) or row["average_high"] - row["average_low"] <= 2 * effort.width:
        return row
    sampling = Sampling(width=2 * effort.width, draws=effort.draws, first=min(_FIRST, effort.draws))
    mean = mean_loss(request.mechanism, request.texts, sets, restored(row["epsilon"]), sampling=sampling)
    low, high = mean.loss.low, mean.loss.high
    if row["pairs"] == ALL and row["method"].startswith("exact"):  # exact pairs give certain bounds
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
    """Return ln((1 - e) (k - 1) / e), at least 0, where the error e is exp(log_scale) times the mean."""

    def of(weight: float) -> float:
        if not weight:
            return math.inf
        log_error = min(log_scale + math.log(weight), math.log1p(-1 / k))
        return max(0.0, math.log(k - 1) + math.log1p(-math.exp(log_error)) - log_error)

    return Bracket(of(mean.high), of(mean.low))


class _Lawful:
    """A sampler of outputs from sqrt(P_i P_j), scaled to a law, for pairs of texts within the sets [n, k]."""

    def __init__(self, laws: Laws, sets: NDArray[np.int64], epsilon: float) -> None:
        self.laws, self.sets, self.epsilon = laws, sets, epsilon
        self.sides = np.array(list(combinations(range(sets.shape[1]), 2)))
        of_sets = np.concatenate([sets[:, side] for side in self.sides])  # [pairs of slots x sets, 2]
        pairs, place = np.unique(np.sort(of_sets, axis=1), axis=0, return_inverse=True)
        one_of_each = Noise.named(-1 - np.arange(len(pairs)), "exact loss", "candidate sets", epsilon)
        log_rho = tilted(laws, pairs, epsilon, one_of_each)[1].log_rho[place.ravel()]
        self.log_rho = log_rho.reshape(len(self.sides), len(sets))

    def over_sets(self, weights: Array) -> tuple[Weigh, float]:
        """Return a function that draws weights, and ln of the ratio (mean error of the sets) / (mean weight)."""
        with np.errstate(divide="ignore"):
            log_shares = (self.log_rho + np.log(weights)).ravel()
        if np.isneginf(peak := log_shares.max()):
            return (lambda noise: np.zeros(len(noise))), -math.inf
        cdf = np.cumsum(np.exp(log_shares - peak))

        def weigh(noise: Noise) -> Array:
            at = np.minimum(noise.uniforms(1, _CHOICE)[:, 0] * cdf[-1], np.nextafter(cdf[-1], 0))
            side, place = np.divmod(np.searchsorted(cdf, at, side="right"), len(self.sets))
            return self._weights(side, place, noise)

        return weigh, float(peak + math.log(cdf[-1]) - math.log(self.sets.shape[1]))

    def one_each(self, trials: NDArray[np.int64], noise: Noise) -> Array:
        """Return weights [trials] in [0, 1]; their mean times (k - 1) / 2 is the sets' mean error."""
        rho = np.exp(self.log_rho[:, trials])
        cdf, weights = np.cumsum(rho, axis=0), np.zeros(len(trials))
        some = np.flatnonzero(cdf[-1] > 0)
        at = np.minimum(noise.uniforms(1, _CHOICE)[some, 0] * cdf[-1, some], np.nextafter(cdf[-1, some], 0))
        side = (at >= cdf[:, some]).sum(axis=0)
        weights[some] = self._weights(side, trials[some], noise[some]) * cdf[-1, some] / len(self.sides)
        return np.minimum(weights, 1.0)

    def _weights(self, side: NDArray[np.integer], place: NDArray[np.integer], noise: Noise) -> Array:
        """Return the weights w of draws. side, place: for each draw, the index of its pair of slots, and of its set."""
        candidates = self.sets[place]
        pairs = np.take_along_axis(candidates, self.sides[side], axis=1)
        units, _ = tilted(self.laws, pairs, self.epsilon, noise)
        log_p = np.stack([log_likelihood(self.laws, text, [units], [self.epsilon])[0] for text in candidates.T])
        return _weight(log_p, np.logaddexp.reduce([(log_p[i] + log_p[j]) / 2 for i, j in self.sides]))


def _by_likelihood(
    mechanism: Mechanism, texts: Sequence[str], candidates: NDArray[np.int64], at: tuple[float, Noise]
) -> Array:
    """Return the weights of one rewrite per candidate set [n, k]. at: the budget and the streams."""
    epsilon, noise = at
    slot = (noise.uniforms(2, _CHOICE)[:, 1] * candidates.shape[1]).astype(int)
    sources = candidates[np.arange(len(candidates)), slot]
    rewrites = mechanism.rewrite([texts[i] for i in sources], epsilon, noise)
    log_p = of_own_rewrites(mechanism, texts, candidates, rewrites, epsilon=epsilon)
    return _weight(log_p.T, np.logaddexp.reduce(log_p.T))


def _weight(log_p: Array, log_sum: Array) -> Array:
    """Return weights [n]: the sum of all but the largest P [k, n], divided by a sum that is at least as large."""
    others = np.logaddexp.reduce(np.sort(log_p, axis=0)[:-1])
    return np.asarray(np.minimum(np.exp(others - log_sum), 1.0))
