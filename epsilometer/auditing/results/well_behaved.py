"""Whether what an attack achieves falls as noise grows: the condition for calibrating noise by that attack.

Noise can be calibrated by an attack if more noise never helps it. For a curve over levels from the least noise to the
most, two questions are tested, and either may be answered yes or no:

- Does it **fall** at all, from the least noise to the most? If not, it has no message: it does not tell levels apart.
- Does it **rise** anywhere, from one level to another with more noise? If so, it is not monotone.

Where the same texts were attacked at every level, differences are paired, and a difference of means is judged by
flipping the signs of the texts' differences. This is exact if these are symmetric about 0 under the hypothesis, as when
the two levels do not differ, and nearly exact for means over a few dozen texts. Where only figures with intervals are
known, such as areas under curves, a difference is judged by the normal distribution, with deviations from the
intervals. Rises are tested for every pair of levels (Bonferroni); the p-values of several curves are corrected together
(Holm).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from epsilometer.auditing.estimation.paired_areas import Areas
from epsilometer.auditing.results.comparison import holm
from epsilometer.core.randomness import Noise

FALLS, NOT_MONOTONE, NO_MESSAGE = "falls with noise", "not monotone", "no message"
_FLIPS = 19_999  # random flips of all signs: the smallest p-value is 1 in 20,000
_NO_SPREAD = 1e-20  # a variance up to this is rounding error


@dataclass(frozen=True)
class Moves:
    """Two p-values: fall is small if the curve surely falls from end to end; rise, if it surely rises somewhere."""

    fall: float
    rise: float


def paired(values: NDArray[np.float64]) -> Moves:
    """Test a curve of means.

    values: [levels, texts], levels from the least noise to the most, the same texts at every level.
    """
    signs = np.sign(Noise.named(_FLIPS, "well behaved").uniforms(values.shape[1]) - 0.5)
    return _of_pairs(lambda i, j: _flipped(values[i] - values[j], signs), len(values))


def by_covariance(of: Areas) -> Moves:
    """Test a curve of areas on the same examples, from the least noise to the most.

    A difference d without any spread, as between an attack that is always right and one that always says the same, has
    the p-value exp(-pairs d^2 / 2): the bound of Hoeffding (1963, section 5) on means over all pairs of two samples.
    """

    def p(i: int, j: int) -> float:
        """Returns the p-value of area i being this much larger than area j by chance."""
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
        """Returns the p-value of figure i being this much larger than figure j by chance."""
        spread = float(np.hypot(deviations[i], deviations[j]))
        difference = values[i] - values[j]
        return float(norm.sf(difference / spread)) if spread else float(difference <= 0)

    return _of_pairs(p, len(values))


def verdicts(tested: Sequence[Moves], alpha: float) -> list[str]:
    """Returns a verdict on each curve; all verdicts hold together at confidence 1 - alpha."""
    corrected = holm([p for curve in tested for p in (curve.fall, curve.rise)])
    pairs = zip(corrected[::2], corrected[1::2], strict=True)
    return [NOT_MONOTONE if rise <= alpha else FALLS if fall <= alpha else NO_MESSAGE for fall, rise in pairs]


def _flipped(differences: NDArray[np.float64], signs: NDArray[np.float64]) -> float:
    """Returns how likely random signs give a sum of differences [texts] as large, the observed ones included."""
    as_large = signs @ differences >= differences.sum() - 1e-12
    return float((1 + as_large.sum()) / (1 + len(signs)))


def _of_pairs(p: Callable[[int, int], float], levels: int) -> Moves:
    """Returns the moves of a curve. p: the p-value of level i being larger than level j by chance."""
    rises = [p(j, i) for i, j in combinations(range(levels), 2)]
    return Moves(p(0, levels - 1), min(1.0, len(rises) * min(rises, default=1.0)))
