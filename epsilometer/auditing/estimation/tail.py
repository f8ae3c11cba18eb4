"""What sure guesses prove of the tail: a lower end of delta at 4 nats, beside the average loss.

For two texts x, x' and a set S of outputs, delta at 4 is at least P(S) - e^4 P'(S), whatever S. Let S be the outputs
for which an attack names x, with a score of at least some threshold. Over trials whose k candidates are all as likely
the source, let a be the rate at which the source is named so surely, and b that at which another candidate is. Then

    a - e^4 b / (k - 1)

is the mean of P(S) - e^4 P'(S) over all ordered pairs of candidates, hence at most the mean delta at 4 nats. A pure
epsilon of up to 4 between all candidates makes it 0 at most, for every threshold.

The threshold (and, of several attacks, the attack) is learnt on one half of the trials; both rates are bounded on the
other half (Clopper and Pearson), so that nothing is paid for the choice. 4 nats are many: a single sure guess in n that
is wrong costs 55 / n. With alpha .01, some 660 trials are the fewest that could prove anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from epsilometer.auditing.estimation.counting import counted
from epsilometer.auditing.estimation.successes import clopper_pearson

TAIL = 4.0  # nats: the level of `delta_at_4`
WEIGHT = math.exp(TAIL)
_ROUNDING = 1e-9  # of what is seen and proved

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """An attack's guesses in n trials. right: [n], whether the source was named; scores: [n], larger where surer.

    Without scores (None) all guesses are as sure.
    """

    right: NDArray[np.bool_]
    scores: NDArray[np.floating] | None

    def part(self, trials: slice) -> Scored:
        """The guesses in some of the trials."""
        return Scored(self.right[trials], None if self.scores is None else self.scores[trials])

    def beyond(self, threshold: float) -> tuple[int, int]:
        """How often the source is named with at least this score, and how often another candidate is."""
        sure = np.ones(len(self.right), bool) if self.scores is None else self.scores >= threshold
        hits = int(np.count_nonzero(self.right & sure))
        return hits, int(np.count_nonzero(sure)) - hits


def lower_end(attacks: Sequence[Scored], candidates: int, alpha: float) -> float | None:
    """The delta at 4 nats that the surest guesses of these attacks prove: the first of `ends`."""
    both = ends(attacks, candidates, alpha)
    return None if both is None else both[0]


def ends(attacks: Sequence[Scored], candidates: int, alpha: float) -> tuple[float, float] | None:
    """Between what a - e^4 b / (k - 1) lies for the surest guesses of these attacks, each end at 1 - alpha / 2.

    attacks: on the same trials, whose order says nothing about their sources; which of them proves most is learnt on
    the first half. The lower end is one of delta at 4 nats, where 0 means no evidence, never private. The upper end is
    of these guesses alone: it bounds no other attack, and no delta. None where it is not testable: no count of the
    second half's trials could prove anything.
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
    named, other = (clopper_pearson(count, left, alpha / 2) for count in (hits, misses))
    return max(0.0, low), max(0.0, named[1] - WEIGHT * other[0] / (candidates - 1))


def fewest_trials(delta: float, candidates: int, alpha: float) -> int:
    """The fewest trials that could prove more than this delta at 4 nats: every guess right, and as sure as any."""

    def enough(half: int) -> bool:
        return float(_proved(np.array([half]), np.array([0]), half, candidates, alpha=alpha)[0]) > delta

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return 2 * high - 1  # the second half has the odd one


def fewest_without(delta: float, alpha: float) -> int:
    """The fewest trials whose upper end (`ends`) can be this delta: of no sure guess at all."""
    return 2 * math.ceil(math.log(alpha / 4) / math.log1p(-delta)) - 1  # the second half has the odd one


def threshold(scored: Scored, candidates: int, alpha: float) -> tuple[float, float]:
    """The score from which on guesses prove most in these trials, and how much, as if it had been fixed beforehand.

    Of several that prove as much the largest.
    """
    trials = len(scored.right)
    scores = np.zeros(trials) if scored.scores is None else scored.scores
    values, counts, (hits,) = counted(scores, scored.right)
    hits, misses = np.cumsum(hits[::-1]), np.cumsum((counts - hits)[::-1])
    # A rate lies within its bounds, so no threshold proves more than is seen there: few need their bounds computed.
    seen = (hits - WEIGHT * misses / (candidates - 1)) / trials
    first = np.array([seen.argmax()])
    least = _proved(hits[first], misses[first], trials, candidates, alpha=alpha)
    able = np.flatnonzero(seen >= least - _ROUNDING)
    proved = _proved(hits[able], misses[able], trials, candidates, alpha=alpha)
    best = int(proved.argmax())
    return float(values[::-1][able[best]]), float(proved[best])


def difference(hits: int, misses: int, trials: int, candidates: int) -> float:
    """a - e^4 b / (k - 1) at the rates seen: no bound."""
    return (hits - WEIGHT * misses / (candidates - 1)) / trials


def _proved(
    hits: NDArray[np.integer], misses: NDArray[np.integer], trials: int, candidates: int, *, alpha: float
) -> Floats:
    """The lower end of a - e^4 b / (k - 1), each rate at alpha / 4, so that both hold with 1 - alpha / 2."""
    level = alpha / 4
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, level), 0.0)
        high = np.where(misses < trials, betaincinv(misses + 1, np.maximum(trials - misses, 1), 1 - level), 1.0)
    proved: Floats = low - WEIGHT * high / (candidates - 1)
    return proved
