"""The smallest difference of two success rates that a paired comparison detects with a stated probability.

Each mechanism is a side of the comparison. A side wins a trial if only the guess about that mechanism is right, or if
its outcome is larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads its parts when they are first used

from epsilometer.auditing.results.comparison import Comparison, Outcomes

POWER = 0.9
_STEP = 0.001
_SPREAD = 9.0  # standard deviations on each side of the mean; a binomial count is farther away with probability 1e-15


@dataclass(frozen=True)
class _Pair:
    """A weaker and a stronger side of a test.

    by_chance: the share of trials that the weaker side wins by chance alone; the stronger side wins equally many by
    chance. gap: the stronger side's share of wins besides those by chance and the difference to detect.
    """

    trials: int
    by_chance: float
    gap: float

    def missed(self, difference: float, level: float) -> float:
        """Return the probability that the two-sided test at this level does not find the stronger side."""
        apart = 2 * self.by_chance + self.gap + difference
        mean, spread = self.trials * apart, _SPREAD * (self.trials * apart * (1 - apart)) ** 0.5
        low, high = max(0, int(mean - spread)), min(self.trials, int(mean + spread) + 1)
        count = np.arange(low, high + 1)
        # For each number of decided trials: the most wins of the losing side that are still significant, or -1.
        most = scipy.stats.binom.ppf(level / 2, count, 0.5) - 1
        most += 2 * scipy.stats.binom.cdf(most + 1, count, 0.5) <= level
        detected = scipy.stats.binom.cdf(most, count, self.by_chance / apart)
        return 1 - float(scipy.stats.binom.pmf(count, self.trials, apart) @ detected)


def least_difference(compared: Comparison, level: float, power: float = POWER) -> float:
    """Return the smallest difference of two success rates that the test detects at a level with probability `power`.

    Assumes that by chance alone, each side wins as often as the weaker side wins in `compared`, and that only the
    stronger side wins further trials. The result is accurate to a thousandth; it is 1 if no difference is detected with
    this probability.
    """
    by_chance = min(compared.first_only, compared.second_only) / compared.trials
    return _least([_Pair(compared.trials, by_chance, 0.0)], level, power)


def least_of_strongest(
    first: Mapping[str, Outcomes], second: Mapping[str, Outcomes], level: float, power: float = POWER
) -> float:
    """Return the smallest difference of the strongest attacks' success rates that `compare_strongest` detects.

    first, second: the outcomes of one or more attacks on each mechanism. level: the level of the p-value, after any
    correction over several comparisons. The difference is detected in either direction with probability `power` or
    more. Assumes that the two mechanisms leak equally in these trials, so that the strongest attacks disagree by chance
    alone. Also assumes that, on the mechanism with the smaller loss, each other attack is weaker than the strongest
    attack by the same margin as in these trials. The result is accurate to a thousandth; it is 1 if no difference is
    detected.

    The finding needs a significant test of the strongest attack on one mechanism against each attack on the other. The
    probabilities that these tests miss the difference are added (union bound), so the tests may depend on each other.
    """
    return max(_one_way(first, second, level, power), _one_way(second, first, level, power))


def _one_way(less: Mapping[str, Outcomes], more: Mapping[str, Outcomes], level: float, power: float) -> float:
    best = max(more.values(), key=lambda each: float(each.sum()))
    counts = [(int((each > best).sum()), int((best > each).sum())) for each in less.values()]
    lead, trials = min(wins - losses for losses, wins in counts), len(best)
    pairs = []
    for losses, wins in counts:
        gap = (wins - losses - lead) / trials
        pairs.append(_Pair(trials, max(0.0, ((wins + losses) / trials - gap) / 2), gap))
    return _least(pairs, level / len(more), power)


def _least(pairs: Sequence[_Pair], level: float, power: float) -> float:
    """Return the smallest difference at which all tests are significant with probability `power` (union bound)."""

    def is_detected(steps: int) -> bool:
        return sum(pair.missed(steps * _STEP, level) for pair in pairs) <= 1 - power

    low, high = 0, int((1 - max(2 * pair.by_chance + pair.gap for pair in pairs)) / _STEP)
    if high < 1 or not is_detected(high):
        return 1.0
    while high - low > 1:  # power grows with the difference
        middle = (low + high) // 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high * _STEP
