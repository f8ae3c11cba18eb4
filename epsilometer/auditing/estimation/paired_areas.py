"""Areas under the curves of several noise levels on the same examples, with their covariance.

Models of less and of more noise score the same members and others, and an example that is easy for one model is easy
for another: areas rise and fall together with the choice of examples, and their difference has a far smaller error
than either. With V_l(x) the share of the others that member x scores more than at level l (equal ones count half), and
W_l(y) the share of the members that score more than y, the area is the mean of V_l, and

    cov(area_k, area_l) = cov(V_k, V_l) / n + cov(W_k, W_l) / m

over n members and m others (DeLong, DeLong and Clarke-Pearson 1988), for many examples. Several models of one level
count by the mean of their areas, that is with the means of V and of W.

**Scope.** Inference is over new examples for fixed models: a difference shows that *these* models of less
noise leak more than *those* of more, on further examples. It says nothing about other trainings at the same
levels, such as those with other seeds.
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
    """Return the share of others that each member scores more than, and of members that score more than each other.

    inside, outside: scores [n] and [m], perhaps infinite; equal ones count half. Returns [n] and [m], whose means
    agree.
    """
    n, m = len(inside), len(outside)
    ranks = rankdata(np.concatenate([inside, outside]))
    return (ranks[:n] - rankdata(inside)) / m, 1 - (ranks[n:] - rankdata(outside)) / n


def areas(levels: Sequence[Array], members: NDArray[np.bool_]) -> Areas:
    """Return the areas of levels whose models score the same examples.

    levels: for each, the scores [models, q] of its models, NaN where the attack does not score; such examples are left
    out of all. members: bool [q]. Raises UserError where fewer than two members, or two others, are left.
    """
    seen = ~np.isnan(np.concatenate(levels)).any(axis=0)
    inside, outside = members & seen, ~members & seen
    n, m = int(inside.sum()), int(outside.sum())
    if min(n, m) < 2:
        raise UserError(
            f"areas are compared on 2 members and 2 others at least, got {n} and {m} that the attack looks at on every "
            "model; ask about more texts",
            "EPS-A065",
        )
    placed = [[placements(scores[inside], scores[outside]) for scores in level] for level in levels]
    above, below = (
        np.array([np.mean([of_model[i] for of_model in level], axis=0) for level in placed]) for i in range(2)
    )
    covariance = np.atleast_2d(np.cov(above)) / n + np.atleast_2d(np.cov(below)) / m
    return Areas(above.mean(axis=1), covariance, min(n, m))
