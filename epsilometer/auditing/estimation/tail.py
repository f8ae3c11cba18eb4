"""Bounds from attacks' confident guesses: a lower bound on delta at 4 nats, an upper bound on what such guesses prove.

For two texts x, x' and any set S of outputs, delta at 4 is at least P(S) - e^4 P'(S). Let S be the set of outputs for
which an attack guesses x with a score of at least some threshold. Consider trials whose k candidates are equally likely
sources. Let a be the rate of right guesses with such a score, and b the rate of wrong guesses with such a score. Then

    a - e^4 b / (k - 1)

is the mean of P(S) - e^4 P'(S) over all ordered pairs of candidates, hence at most the mean delta at 4 nats. If the
pure epsilon between all candidates is at most 4, the difference is at most 0, for every threshold.

**The lower bound.** One half of the trials chooses the threshold and, among several attacks, the attack. The other half
bounds the rates a and b (Clopper and Pearson), so the choice needs no correction. Wrong guesses have a large weight:
for k = 2, one confident wrong guess in n trials lowers the bound by 55 / n. With alpha .01, at least about 660 trials
are needed to prove any delta.

**The upper bound** is on the largest a(t) - e^4 b(t) / (k - 1) over all thresholds t, where a(t) and b(t) are the rates
of right and of wrong guesses with a score of at least t. The first half fixes thresholds v_1 > ... > v_J. Both rates
fall as t grows, so for v_(j+1) < t <= v_j

    a(t) - e^4 b(t) / (k - 1)  <=  P(right, score > v_(j+1)) - e^4 P(wrong, score >= v_j) / (k - 1).

On the right side, the second term is 0 for t > v_1, and the first term is the rate of all right guesses for t <= v_J.
The second half gives an upper bound of each right side at error s, by bounding both of its rates at error s / 2
(Clopper and Pearson, one-sided). The largest of these bounds is below the largest difference with probability at most
s, for any number of thresholds and attacks. To see this, take the attack and interval with the largest difference. They
do not depend on the second half, so their bound fails with probability at most s; and the largest bound is at least
their bound. So the number of thresholds is not limited. The thresholds are the scores at ranks 1, 2, ... of the first
half, where each rank is about 1.1 times the previous one.

With alpha .01 the upper bound for an attack at chance is at most .01 in 43 % of runs with 2,000 trials, and in 99.8 %
of runs with 5,000 trials. For an attack that is right in 73 of 100 guesses at every score, the two shares are 10 % and
79 %. For the largest bound of four attacks at chance, they are 4 % and 98.5 % (1,000 runs each). The upper bound covers
only these attacks and does not bound delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from epsilometer.auditing.estimation.counting import counted

TAIL = 4.0  # nats: the level of `delta_at_4`
WEIGHT = math.exp(TAIL)
_ROUNDING = 1e-9  # tolerance between observed and proved differences
_RATIO = 1.1  # ratio of the ranks of two neighbouring thresholds

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """An attack's guesses in n trials.

    right: [n], True for a right guess. scores: [n], larger if more confident; None if all are equally confident.
    """

    right: NDArray[np.bool_]
    scores: NDArray[np.floating] | None

    def part(self, trials: slice) -> Scored:
        """Return the guesses in some of the trials."""
        return Scored(self.right[trials], None if self.scores is None else self.scores[trials])

    def beyond(self, threshold: float) -> tuple[int, int]:
        """Return the numbers of right and of wrong guesses with at least this score."""
        sure = np.ones(len(self.right), bool) if self.scores is None else self.scores >= threshold
        hits = int(np.count_nonzero(self.right & sure))
        return hits, int(np.count_nonzero(sure)) - hits

    def between(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return [2, J + 1], counts for each interval between thresholds; without scores there is one interval.

        The counts are of right guesses scored above the interval's lower end, and of wrong guesses scored at or above
        its upper end. values: [J], the thresholds, ascending.
        """
        if self.scores is None:
            hits = np.count_nonzero(self.right)
            return np.array([[hits], [len(self.right) - hits]])
        right, wrong = np.sort(self.scores[self.right]), np.sort(self.scores[~self.right])
        above = len(right) - np.searchsorted(right, values, side="right")
        beyond = len(wrong) - np.searchsorted(wrong, values, side="left")
        return np.array([[len(right), *above], [*beyond, 0]])


def lower_end(attacks: Sequence[Scored], candidates: int, alpha: float) -> float | None:
    """Return the delta at 4 nats that these attacks' most confident guesses prove: the lower bound in `ends`."""
    both = ends(attacks, candidates, alpha)
    return None if both is None else both[0]


def ends(attacks: Sequence[Scored], candidates: int, alpha: float) -> tuple[float, float] | None:
    """Return a lower and an upper bound by the most confident guesses, each at confidence 1 - alpha / 2.

    attacks: the guesses of each attack in the same trials; the order of the trials must not depend on their sources.
    The lower bound is on delta at 4 nats (0 means no evidence, not privacy). The first half of the trials chooses the
    attack that proves most. The upper bound is on the largest a - e^4 b / (k - 1) of these attacks at any threshold; it
    bounds neither other attacks nor delta. Returns None if the trials are too few to test anything: even if all guesses
    in the second half were right, they would prove nothing.
    """
    trials = len(attacks[0].right)
    first, second = slice(trials // 2), slice(trials // 2, trials)
    left = trials - trials // 2
    if trials < 2 or _proved(np.array([left]), np.array([0]), left, candidates, alpha=alpha)[0] <= 0:
        return None
    learnt = [threshold(scored.part(first), candidates, alpha) for scored in attacks]
    chosen = max(range(len(attacks)), key=lambda i: learnt[i][1])
    hits, misses = attacks[chosen].part(second).beyond(learnt[chosen][0])
    low = float(_proved(np.array([hits]), np.array([misses]), left, candidates, alpha=alpha)[0])
    high = max(_largest(scored.part(first), scored.part(second), candidates, error=alpha / 2) for scored in attacks)
    return max(0.0, low), max(0.0, high)


def fewest_trials(delta: float, candidates: int, alpha: float) -> int:
    """Return the fewest trials that could prove more than this delta at 4 nats (all guesses right, equal scores)."""

    def enough(half: int) -> bool:
        return float(_proved(np.array([half]), np.array([0]), half, candidates, alpha=alpha)[0]) > delta

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return 2 * high - 1  # the second half gets the odd trial


def fewest_without(delta: float, alpha: float) -> int:
    """Return the fewest trials for which `ends` can return the upper bound `delta`, if no confident guess is right."""
    return 2 * math.ceil(math.log(alpha / 4) / math.log1p(-delta)) - 1  # the second half gets the odd trial


def thresholds(scored: Scored) -> NDArray[np.floating]:
    """Return the distinct scores at ranks 1, 2, ... of these guesses, ascending; ranks grow by the factor _RATIO."""
    count = len(scored.right)
    ranks = np.ceil(_RATIO ** np.arange(math.ceil(math.log(count, _RATIO)) + 1)).astype(np.int64)
    scores = np.zeros(count) if scored.scores is None else np.sort(scored.scores)
    return np.unique(scores[count - np.minimum(ranks, count)])


def threshold(scored: Scored, candidates: int, alpha: float) -> tuple[float, float]:
    """Return the threshold whose guesses prove most in these trials, and the lower bound at this threshold.

    The bound would be valid only if the threshold had been fixed beforehand. If several thresholds prove the same, the
    largest is returned.
    """
    trials = len(scored.right)
    scores = np.zeros(trials) if scored.scores is None else scored.scores
    values, counts, (hits,) = counted(scores, scored.right)
    hits, misses = np.cumsum(hits[::-1]), np.cumsum((counts - hits)[::-1])
    # A bound is at most the observed difference, so only thresholds with large differences need bounds.
    seen = (hits - WEIGHT * misses / (candidates - 1)) / trials
    first = np.array([seen.argmax()])
    least = _proved(hits[first], misses[first], trials, candidates, alpha=alpha)
    able = np.flatnonzero(seen >= least - _ROUNDING)
    proved = _proved(hits[able], misses[able], trials, candidates, alpha=alpha)
    best = int(proved.argmax())
    return float(values[::-1][able[best]]), float(proved[best])


def difference(hits: int, misses: int, trials: int, candidates: int) -> float:
    """Return a - e^4 b / (k - 1) at the observed rates; this is not a bound."""
    return (hits - WEIGHT * misses / (candidates - 1)) / trials


def lower_bounds(
    hits: NDArray[np.integer], misses: NDArray[np.integer], trials: int, candidates: int, *, error: float
) -> Floats:
    """Return lower bounds of a - e^4 b / (k - 1), each wrong with probability at most `error`.

    Each of the two rates is bounded at half of that error. hits, misses: counts [...] of right and of wrong guesses
    with at least some score; other trials must have chosen this score.
    """
    return _least(hits, trials, error / 2) - WEIGHT * _most(misses, trials, error / 2) / (candidates - 1)


def upper_bounds(
    hits: NDArray[np.integer], misses: NDArray[np.integer], trials: int, candidates: int, *, error: float
) -> Floats:
    """Return upper bounds of a - e^4 b / (k - 1), each wrong with probability at most `error` (see `lower_bounds`)."""
    return _most(hits, trials, error / 2) - WEIGHT * _least(misses, trials, error / 2) / (candidates - 1)


def _proved(
    hits: NDArray[np.integer], misses: NDArray[np.integer], trials: int, candidates: int, *, alpha: float
) -> Floats:
    return lower_bounds(hits, misses, trials, candidates, error=alpha / 2)


def _largest(first: Scored, second: Scored, candidates: int, error: float) -> float:
    """Return the upper bound on the largest a(t) - e^4 b(t) / (k - 1) of one attack, at confidence 1 - error."""
    trials, (hits, misses) = len(second.right), second.between(thresholds(first))
    return float(upper_bounds(hits, misses, trials, candidates, error=error).max())


def _least(counts: NDArray[np.integer], trials: int, level: float) -> Floats:
    """Return the lower bound of each rate at this error (Clopper and Pearson)."""
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, betaincinv(np.maximum(counts, 1), trials - counts + 1, level), 0.0)


def _most(counts: NDArray[np.integer], trials: int, level: float) -> Floats:
    """Return the upper bound of each rate at this error (Clopper and Pearson)."""
    with np.errstate(invalid="ignore"):
        return np.where(counts < trials, betaincinv(counts + 1, np.maximum(trials - counts, 1), 1 - level), 1.0)
