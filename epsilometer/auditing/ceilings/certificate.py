"""A loss proved without an attack: the smallest loss of any mechanism with a given worth (mean cosine).

Let sets S of texts be drawn independently. Let F_S(q) be the largest worth that any mechanism can have on S if the best
adversary's success is q (`frontier.py`). For any slope lambda > 0 let

    m_S = max over q in [1/2, 1] of (F_S(q) - lambda q).

If the best adversary finds the source in S with probability p_S, the mean worth U_S of a mechanism on the audited pairs
of S is at most F_S(p_S) <= m_S + lambda p_S. So the mean of p_S over sets is at least E[U_S - m_S] / lambda. Since F_S
does not decrease and -1 <= U_S <= F_S(1) <= 1, the number U_S - m_S lies in [-2 + lambda / 2, lambda]. The betting
interval for the mean of bounded numbers (`estimation/betting.py`) bounds E[U_S - m_S], and so the mean of p_S, from
below. The bound covers the randomness of rewrites and of sets. lambda is chosen on the first half of the sets; the
second half gives the interval.

Assumptions: the trials of a set are fresh draws of the mechanism, with sources as in `TextSet`; worth is the cosine of
sentence embeddings by the encoder that F is computed with; an undefined worth counts as -1. The proved loss is the loss
of the released text. If the text reveals more than the output that a mechanism's stated law describes, the proved loss
may exceed the loss under that law.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.ceilings.frontier import Frontier, loss_of
from epsilometer.auditing.estimation.betting import interval
from epsilometer.core.errors import UserError

_SLOPES = np.geomspace(0.05, 4, 40)
_ROUNDED = 1e-4  # largest rounding error of a cosine beyond its bounds
_LEAST = 2  # fewest sets in each half


def proved_loss(frontiers: Sequence[Frontier], worths: NDArray[np.float64], alpha: float = 0.01) -> float:
    """Return the guess loss in nats that these worths prove, with probability 1 - alpha; 0 if they prove none.

    worths: [sets], the mean worth of the trials of each set, NaN if it is undefined. Raises UserError for fewer than
    four sets, and for a worth beyond a cosine's bounds.
    """
    if len(frontiers) < 2 * _LEAST:
        raise UserError(
            f"a loss bound by worth needs at least {2 * _LEAST} sets of texts, got {len(frontiers)}; draw more sets",
            "EPS-A045",
        )
    if len(beyond := worths[np.abs(worths) > 1 + _ROUNDED]):
        raise UserError(f"worth must be a cosine, in [-1, 1], got {beyond[0]:g}; rescale it", "EPS-A046")
    bounded = np.clip(np.nan_to_num(worths, nan=-1.0), -1, 1)
    half = len(frontiers) // 2
    slope = max(_SLOPES, key=lambda slope: _success(frontiers[:half], bounded[:half], slope, alpha))
    success = _success(frontiers[half:], bounded[half:], slope, alpha)
    return max(0.0, loss_of(success)) if success > 0.5 else 0.0


def _success(frontiers: Sequence[Frontier], worths: NDArray[np.float64], slope: float, alpha: float) -> float:
    """Return the lower bound of the mean success at a slope that was fixed beforehand."""
    low, high = -2 + slope / 2, slope
    tops = np.array(
        [(frontier.upper - slope * frontier.at).max() for frontier in frontiers]
    )  # m_S, which is attained at a corner of F
    values = np.clip((worths - tops - low) / (high - low), 0, 1)
    bound, _ = interval(values, 2 * alpha, fixed=True)  # only the lower bound is used, at alpha
    return (low + (high - low) * bound) / slope
