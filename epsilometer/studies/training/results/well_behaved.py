"""A test that an attack's success falls as noise grows. Only then can noise be calibrated by the attack.

A curve over levels, from the least noise to the most, is tested with two questions:

- Does the curve **fall** from the least noise to the most? If not, the attack does not distinguish the levels.
- Does the curve **rise** between any two levels? If so, it is not monotone.

If the same texts were attacked at every level, each text has a difference between two levels. The mean difference is
tested by flipping the signs of the texts' differences. Up to b = 14 texts, all 2^b sign patterns are used; beyond,
random patterns. The test is exact if differences are symmetric about 0 under the hypothesis, and nearly exact for means
over a few dozen texts. Estimates with intervals are compared by the normal distribution, with deviations derived from
the intervals. Rises are tested for every pair of levels (Bonferroni).

A sign-flip test of b texts has no p-value below 2^-b. The p-values of several curves are corrected together (Holm).
Tests that could never become significant with their number of texts are left out (Tarone 1990,
`claims.verdicts.divisor`). A curve whose fall could never become significant is *not testable*.
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
_FLIPS = 19_999  # number of random sign patterns, so that the smallest p-value is 1 in 20,000
_ENUMERATED = 14  # maximum number of texts whose sign patterns are all enumerated; 2^14 is below _FLIPS
_NO_SPREAD = 1e-20  # a variance up to this counts as rounding error


@dataclass(frozen=True)
class Moves:
    """The p-values of a curve.

    fall: small if the curve falls from the least noise to the most.
    rise: small if the curve rises between some levels.
    least_fall, least_rise: the smallest possible p-values with these numbers of texts and levels; 0 for tests by the
        normal distribution.
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
    more = int(texts > _ENUMERATED)  # with random patterns, the observed signs count as one more pattern
    signs = np.sign(Noise.named(_FLIPS, "well behaved").uniforms(texts) - 0.5) if more else _every_sign(texts)

    def p(i: int, j: int) -> float:
        """Return the share of sign patterns whose sum of differences (level i minus j) reaches the observed sum."""
        differences = values[i] - values[j]
        as_large = ~(signs @ differences < differences.sum() - 1e-12)  # negated, so that NaN counts as large
        return float((more + as_large.sum()) / (more + len(signs)))

    return _of_pairs(p, levels, least=1 / (more + len(signs)))


def by_covariance(of: Areas) -> Moves:
    """Test a curve of areas on the same examples, from the least noise to the most.

    A difference d may have no variance, for example if the attack is always right at one level and guesses a constant
    at the other. Then the p-value is exp(-pairs d^2 / 2), the bound of Hoeffding (1963, section 5) on means over pairs
    of two samples.
    """

    def p(i: int, j: int) -> float:
        """Return the one-sided p-value of the difference of area i minus area j."""
        difference = float(of.values[i] - of.values[j])
        variance = float(of.covariance[i, i] + of.covariance[j, j] - 2 * of.covariance[i, j])
        if variance > _NO_SPREAD:
            return float(norm.sf(difference / np.sqrt(variance)))
        return float(np.exp(-of.pairs * max(difference, 0.0) ** 2 / 2))

    return _of_pairs(p, len(of.values))


def by_intervals(values: Sequence[float], low: Sequence[float], high: Sequence[float], alpha: float) -> Moves:
    """Test a curve of independent estimates [levels] from their lower and upper bounds at confidence 1 - alpha."""
    deviations = (np.asarray(high) - np.asarray(low)) / (2 * norm.isf(alpha / 2))

    def p(i: int, j: int) -> float:
        """Return the one-sided p-value of the difference of estimate i minus estimate j."""
        spread = float(np.hypot(deviations[i], deviations[j]))
        difference = values[i] - values[j]
        return float(norm.sf(difference / spread)) if spread else float(difference <= 0)

    return _of_pairs(p, len(values))


def verdicts(tested: Sequence[Moves], alpha: float) -> list[str]:
    """Return a verdict on each curve. With probability 1 - alpha, no verdict states a false fall or rise."""
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
    """Return the p-values of a curve.

    p: maps i and j to the one-sided p-value of level i minus level j; least: the smallest possible value of p.
    """
    rises = [p(j, i) for i, j in combinations(range(levels), 2)]
    rise = min(1.0, len(rises) * min(rises, default=1.0))
    return Moves(p(0, levels - 1), rise, least, min(1.0, len(rises) * least))
