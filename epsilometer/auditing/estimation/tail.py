"""The tail by confident guesses: a lower bound on delta at 4 nats, and an upper bound on the tail of these guesses.

For two texts x, x' and a set S of outputs, delta at 4 is at least P(S) - e^4 P'(S), whatever S. Let S be the outputs
for which an attack names x, with a score of at least some threshold. Over trials whose k candidates are equally likely
sources, let a be the rate at which the source is named with such a score, and b that at which another candidate is.
Then

    a - e^4 b / (k - 1)

is the mean of P(S) - e^4 P'(S) over all ordered pairs of candidates, hence at most the mean delta at 4 nats. A pure
epsilon of up to 4 between all candidates makes it 0 at most, for every threshold.

**The lower bound.** The threshold (and, with several attacks, the attack) is learnt on one half of the trials; both
rates are bounded on the other half (Clopper and Pearson), so the choice costs no confidence. 4 nats are many: a single
confident guess in n that is wrong costs 55 / n. With alpha .01, about 660 trials are the fewest that could prove any.

**The upper bound** is of the largest a(t) - e^4 b(t) / (k - 1) over all thresholds t, where a(t) and b(t) are the rates
of right and of wrong guesses with a score of at least t. The first half fixes thresholds v_1 > ... > v_J. Both rates
fall as t grows, so that in v_(j+1) < t <= v_j

    a(t) - e^4 b(t) / (k - 1)  <=  P(right, score > v_(j+1)) - e^4 P(wrong, score >= v_j) / (k - 1),

where above v_1 the second term is 0, and from v_J down the first is the rate of all right guesses. On the second half
each right side has an upper bound at error a: its two rates are bounded at a / 2 each (Clopper and Pearson, one-sided).
The largest of these bounds is below the largest difference with probability at most a, however many thresholds and
attacks there are. The reason: it is at least the bound of the one attack and the one interval that contain the largest
difference, and the second half does not choose these. So the thresholds may be many. They are the scores at ranks 1, 2,
... of the first half, where each rank is about 1.1 times the one before.

With alpha .01 the upper bound of an attack at chance is at most .01 in .43 of runs at 2,000 trials and in .998 at
5,000. For an attack that is right in 73 of 100 guesses whatever its score, the shares are .10 and .79, and for the
largest of four attacks at chance .04 and .985 (1,000 runs each). It bounds these attacks alone, never delta.
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
    """An attack's guesses in n trials. right: [n], whether the source was named; scores: [n], larger if more confident.

    Without scores (None) all guesses are equally confident.
    """

    right: NDArray[np.bool_]
    scores: NDArray[np.floating] | None

    def part(self, trials: slice) -> Scored:
        """Return the guesses in some of the trials."""
        return Scored(self.right[trials], None if self.scores is None else self.scores[trials])

    def beyond(self, threshold: float) -> tuple[int, int]:
        """Return how often the source is named with at least this score, and how often another candidate is."""
        sure = np.ones(len(self.right), bool) if self.scores is None else self.scores >= threshold
        hits = int(np.count_nonzero(self.right & sure))
        return hits, int(np.count_nonzero(sure)) - hits

    def between(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return [2, J + 1]: right guesses scored above the lower end of each interval between these thresholds, and
        wrong guesses scored at its upper end or above. values: [J], ascending; without scores there is one interval.
        """
        if self.scores is None:
            hits = np.count_nonzero(self.right)
            return np.array([[hits], [len(self.right) - hits]])
        right, wrong = np.sort(self.scores[self.right]), np.sort(self.scores[~self.right])
        above = len(right) - np.searchsorted(right, values, side="right")
        beyond = len(wrong) - np.searchsorted(wrong, values, side="left")
        return np.array([[len(right), *above], [*beyond, 0]])


def lower_end(attacks: Sequence[Scored], candidates: int, alpha: float) -> float | None:
    """Return the delta at 4 nats that the most confident guesses of these attacks prove: the first of `ends`."""
    both = ends(attacks, candidates, alpha)
    return None if both is None else both[0]


def ends(attacks: Sequence[Scored], candidates: int, alpha: float) -> tuple[float, float] | None:
    """Return a lower and an upper bound by the most confident guesses, each at confidence 1 - alpha / 2.

    attacks: on the same trials, whose order says nothing about their sources. The lower bound is one of delta at 4
    nats, where 0 means no evidence, never private; the first half of the trials chooses the attack that proves most.
    The upper bound is of the largest a - e^4 b / (k - 1) of any of these attacks at any threshold: it bounds neither
    other attacks nor delta. None where it is not testable: no count of the second half's trials could prove anything.
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
    """Return the fewest trials that could prove more than this delta at 4 nats: all guesses right, equal scores."""

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
    """Return the fewest trials whose upper bound (`ends`) can be this delta: no hit is above the highest threshold."""
    return 2 * math.ceil(math.log(alpha / 4) / math.log1p(-delta)) - 1  # the second half gets the odd trial


def thresholds(scored: Scored) -> NDArray[np.floating]:
    """Return the distinct scores at ranks 1, 2, ... of these guesses, ascending; each rank is _RATIO times the last."""
    count = len(scored.right)
    ranks = np.ceil(_RATIO ** np.arange(math.ceil(math.log(count, _RATIO)) + 1)).astype(np.int64)
    scores = np.zeros(count) if scored.scores is None else np.sort(scored.scores)
    return np.unique(scores[count - np.minimum(ranks, count)])


def threshold(scored: Scored, candidates: int, alpha: float) -> tuple[float, float]:
    """Return the score from which guesses prove most in these trials, and that bound, as if it were fixed beforehand.

    The largest of several scores that prove the same.
    """
    trials = len(scored.right)
    scores = np.zeros(trials) if scored.scores is None else scored.scores
    values, counts, (hits,) = counted(scores, scored.right)
    hits, misses = np.cumsum(hits[::-1]), np.cumsum((counts - hits)[::-1])
    # A rate lies within its bounds, so no threshold proves more than its observed rates, and few need bounds.
    seen = (hits - WEIGHT * misses / (candidates - 1)) / trials
    first = np.array([seen.argmax()])
    least = _proved(hits[first], misses[first], trials, candidates, alpha=alpha)
    able = np.flatnonzero(seen >= least - _ROUNDING)
    proved = _proved(hits[able], misses[able], trials, candidates, alpha=alpha)
    best = int(proved.argmax())
    return float(values[::-1][able[best]]), float(proved[best])


def difference(hits: int, misses: int, trials: int, candidates: int) -> float:
    """Return a - e^4 b / (k - 1) at the observed rates, which is not a bound."""
    return (hits - WEIGHT * misses / (candidates - 1)) / trials


def lower_bounds(
    hits: NDArray[np.integer], misses: NDArray[np.integer], trials: int, candidates: int, *, error: float
) -> Floats:
    """Return lower bounds of a - e^4 b / (k - 1), each wrong with this probability: either rate at half of it.

    hits, misses: counts [...] of right and of wrong guesses with at least a score that these trials did not choose.
    """
    return _least(hits, trials, error / 2) - WEIGHT * _most(misses, trials, error / 2) / (candidates - 1)


def upper_bounds(
    hits: NDArray[np.integer], misses: NDArray[np.integer], trials: int, candidates: int, *, error: float
) -> Floats:
    """Return upper bounds of the same, each wrong with this probability."""
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
