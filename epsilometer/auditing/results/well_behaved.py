"""Whether what an attack gets falls as noise grows: what calibrating a noise by that attack rests on.

An attack calibrates a noise if more noise never helps it. For a curve over levels from the least noise to the most two
questions are tested, each of which could come out either way:

- does it **fall** at all, from the least noise to the most? Else it has no message: no level is told from another;
- does it **rise** anywhere, from a level to one of more noise? Then it is not monotone.

Of texts that were attacked at every level the differences are paired, and a difference of means is judged by flipping
the signs of the texts' differences: exact where these are symmetric about 0 under the hypothesis, as where both levels
are alike, and nearly so for means of some dozen texts. Of figures with intervals alone, as areas under curves, a
difference is judged by the normal distribution, whose deviations the intervals give. Rises are tested for every pair of
levels (Bonferroni); of several curves the p-values are corrected together (Holm).
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
_FLIPS = 19_999  # random signs: the least p-value is 1 in 20,000
_NO_SPREAD = 1e-20  # a variance that is rounding


@dataclass(frozen=True)
class Moves:
    """fall, rise: p-values, small where the curve surely falls from end to end, or rises somewhere."""

    fall: float
    rise: float


def paired(values: NDArray[np.float64]) -> Moves:
    """Test a curve of means; values: [levels, texts] from the least noise to the most, each text at every level."""
    signs = np.sign(Noise.named(_FLIPS, "well behaved").uniforms(values.shape[1]) - 0.5)
    return _of_pairs(lambda i, j: _flipped(values[i] - values[j], signs), len(values))


def by_covariance(of: Areas) -> Moves:
    """Test a curve of areas on the same examples, from the least noise to the most.

    A difference d without any spread, as between an attack that is always right and one that always says the same, has
    exp(-pairs d^2 / 2) for p-value: the bound of Hoeffding (1963, section 5) on means over all pairs of two samples.
    """

    def p(i: int, j: int) -> float:
        """Of area i being so much larger than area j by chance."""
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
        """Of figure i being so much larger than figure j by chance."""
        spread = float(np.hypot(deviations[i], deviations[j]))
        difference = values[i] - values[j]
        return float(norm.sf(difference / spread)) if spread else float(difference <= 0)

    return _of_pairs(p, len(values))


def verdicts(tested: Sequence[Moves], alpha: float) -> list[str]:
    """What is surely so of each curve, all of them together at confidence 1 - alpha."""
    corrected = holm([p for one in tested for p in (one.fall, one.rise)])
    pairs = zip(corrected[::2], corrected[1::2], strict=True)
    return [NOT_MONOTONE if rise <= alpha else FALLS if fall <= alpha else NO_MESSAGE for fall, rise in pairs]


def _flipped(differences: NDArray[np.float64], signs: NDArray[np.float64]) -> float:
    """How likely random signs give a sum of differences [texts] as large, the observed ones among them."""
    as_large = signs @ differences >= differences.sum() - 1e-12
    return float((1 + as_large.sum()) / (1 + len(signs)))


def _of_pairs(p: Callable[[int, int], float], levels: int) -> Moves:
    """p: of level i being larger than level j by chance."""
    rises = [p(j, i) for i, j in combinations(range(levels), 2)]
    return Moves(p(0, levels - 1), min(1.0, len(rises) * min(rises, default=1.0)))
