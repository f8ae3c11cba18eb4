"""Areas under ROC curves at several noise levels on the same examples, with their covariance.

The models of all levels are scored on the same members and others. An example that is easy for one model is usually
easy for another. So over the choice of examples, two areas are positively correlated, and their difference has a far
smaller error than a single area. Let V_l(x) be the share of the others whose score at level l is below the score of
member x. Let W_l(y) be the share of the members whose score is above the score of y, one of the others. Equal scores
count half. The area at level l is the mean of V_l, and for many examples

    cov(area_k, area_l) = cov(V_k, V_l) / n + cov(W_k, W_l) / m

with n members and m others (DeLong, DeLong and Clarke-Pearson 1988). If a level has several models, the area, V and W
are means over its models.

**Scope.** The models are fixed, and inference is about new examples. A difference shows that, on further examples,
*these* models with less noise leak more than *those* with more noise. The inference does not cover other trainings at
these levels, for example with other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from epsilometer.core.errors import UserError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Areas:
    """Areas by level. values: [levels], means over models; covariance: [levels, levels]; pairs: min(n, m)."""

    values: Array
    covariance: Array
    pairs: int


def placements(inside: Array, outside: Array) -> tuple[Array, Array]:
    """Return V [n], the share of others below each member, and W [m], the share of members above each non-member.

    inside, outside: the scores [n] of members and [m] of others, which may be infinite. Equal scores count half. The
    means of V and W are equal.
    """
    n, m = len(inside), len(outside)
    ranks = rankdata(np.concatenate([inside, outside]))
    return (ranks[:n] - rankdata(inside)) / m, 1 - (ranks[n:] - rankdata(outside)) / n


def areas(levels: Sequence[Array], members: NDArray[np.bool_]) -> Areas:
    """Return the areas of levels whose models score the same examples.

    levels: for each level, the scores [models, q] of its models. An example with a NaN score anywhere is left out.
    members: bool [q].
    Raises UserError if fewer than two members, or fewer than two others, remain.
    """
    seen = ~np.isnan(np.concatenate(levels)).any(axis=0)
    inside, outside = members & seen, ~members & seen
    n, m = int(inside.sum()), int(outside.sum())
    if min(n, m) < 2:
        raise UserError(
            f"areas need at least 2 members and 2 others that the attack scores on every model, got {n} and {m}; ask "
            "about more texts",
            "EPS-A065",
        )
    placed = [[placements(scores[inside], scores[outside]) for scores in level] for level in levels]
    above, below = (
        np.array([np.mean([of_model[i] for of_model in level], axis=0) for level in placed]) for i in range(2)
    )
    covariance = np.atleast_2d(np.cov(above)) / n + np.atleast_2d(np.cov(below)) / m
    return Areas(above.mean(axis=1), covariance, min(n, m))
