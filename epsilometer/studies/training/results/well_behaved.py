"""A test that an attack's success falls as noise grows: the condition for calibrating noise by that attack.

Noise can be calibrated by an attack if more noise never helps it. For a curve over levels from the least noise to the
most, two questions are tested, each with an answer of its own:

- Does it **fall** at all, from the least noise to the most? If not, it does not tell levels apart.
- Does it **rise** anywhere, from one level to another with more noise? If so, it is not monotone.

Where the same texts were attacked at every level, differences are paired, and a difference of means is judged by
flipping the signs of the texts' differences: all 2^b ways for b up to 14 texts, random ones for more. This is
exact if these are symmetric about 0 under the hypothesis, as when the two levels do not differ, and nearly exact for
means over a few dozen texts. Where only figures with intervals are known, such as areas under curves, a difference is
judged by the normal distribution, with deviations from the intervals. Rises are tested for every pair of levels
(Bonferroni).

No sign flip of b texts has a p-value below 2^-b. The p-values of several curves are corrected together
(Holm), leaving out tests that could not have become significant with these numbers of texts
(Tarone 1990, `claims.verdicts.divisor`). A curve whose fall could not have been seen is *not testable*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from epsilometer.auditing.claims.verdicts import NOT_TESTABLE, divisor
from epsilometer.auditing.results.comparison import holm
from epsilometer.core.randomness import Noise
from epsilometer.studies.training.results.paired_areas import Areas

FALLS, NOT_MONOTONE, NO_MESSAGE = "falls with noise", "not monotone", "no message"
_FLIPS = 19_999  # random flips of all signs: the smallest p-value is 1 in 20,000
_ENUMERATED = 14  # most texts whose flips are all enumerated: fewer than _FLIPS
_NO_SPREAD = 1e-20  # a variance up to this is rounding error


@dataclass(frozen=True)
class Moves:
    """Two p-values: fall is small if the curve falls from end to end; rise, if it rises somewhere.

    least_fall, least_rise: their smallest possible values with these numbers of texts and levels; 0 by the normal law.
    """

    fall: float
    rise: float
    least_fall: float = 0.0
    least_rise: float = 0.0


def paired(values: NDArray[np.float64]) -> Moves:
    """Test a curve of means.

    values: [levels, texts], levels from the least noise to the most, the same texts at every level.
    """
    levels, texts = values.shape
    more = int(texts > _ENUMERATED)  # then the observation counts as one more flip
    signs = np.sign(Noise.named(_FLIPS, "well behaved").uniforms(texts) - 0.5) if more else _every_sign(texts)

    def p(i: int, j: int) -> float:
        """Return the probability that flips give a sum of differences as large as that of level i less level j."""
        differences = values[i] - values[j]
        as_large = ~(signs @ differences < differences.sum() - 1e-12)  # an undefined sum shows no move
        return float((more + as_large.sum()) / (more + len(signs)))

    return _of_pairs(p, levels, least=1 / (more + len(signs)))


def by_covariance(of: Areas) -> Moves:
    """Test a curve of areas on the same examples, from the least noise to the most.

    A difference d without any spread, as between an attack that is always right and one whose guess is constant, has
    the p-value exp(-pairs d^2 / 2): the bound of Hoeffding (1963, section 5) on means over all pairs of two samples.
    """

    def p(i: int, j: int) -> float:
        """Return the p-value of area i being this much larger than area j by chance."""
        difference = float(of.values[i] - of.values[j])
        variance = float(of.covariance[i, i] + of.covariance[j, j] - 2 * of.covariance[i, j])
        if variance > _NO_SPREAD:
            return float(norm.sf(difference / np.sqrt(variance)))
        return float(np.exp(-of.pairs * max(difference, 0.0) ** 2 / 2))

    return _of_pairs(p, len(of.values))


def by_intervals(values: Sequence[float], low: Sequence[float], high: Sequence[float], alpha: float) -> Moves:
    """Test a curve of figures [levels] from their 1 - alpha intervals; the figures of two levels are independent."""
    deviations = (np.asarray(high) - np.asarray(low)) / (2 * norm.isf(alpha / 2))

    def p(i: int, j: int) -> float:
        """Return the p-value of figure i being this much larger than figure j by chance."""
        spread = float(np.hypot(deviations[i], deviations[j]))
        difference = values[i] - values[j]
        return float(norm.sf(difference / spread)) if spread else float(difference <= 0)

    return _of_pairs(p, len(values))


def verdicts(tested: Sequence[Moves], alpha: float) -> list[str]:
    """Return a verdict on each curve; all verdicts hold together at confidence 1 - alpha."""
    p, least = (
        np.array([getattr(curve, name) for curve in tested for name in names], np.float64)
        for names in (("fall", "rise"), ("least_fall", "least_rise"))
    )
    testable = least <= alpha / divisor(least.tolist(), alpha)
    moves = np.zeros(len(p), bool)
    moves[testable] = np.array(holm(p[testable].tolist()), np.float64) <= alpha
    pairs = zip(moves[::2], moves[1::2], testable[::2], strict=True)
    return [
        NOT_MONOTONE if rises else FALLS if falls else NO_MESSAGE if could_fall else NOT_TESTABLE
        for falls, rises, could_fall in pairs
    ]


def _every_sign(texts: int) -> NDArray[np.float64]:
    """Return all sign patterns of this number of texts, [2^texts, texts]."""
    return np.array(list(product((-1.0, 1.0), repeat=texts)))


def _of_pairs(p: Callable[[int, int], float], levels: int, least: float = 0.0) -> Moves:
    """Return the moves of a curve.

    p: the p-value of level i being larger than level j by chance; least: its smallest possible value.
    """
    rises = [p(j, i) for i, j in combinations(range(levels), 2)]
    rise = min(1.0, len(rises) * min(rises, default=1.0))
    return Moves(p(0, levels - 1), rise, least, min(1.0, len(rises) * least))
