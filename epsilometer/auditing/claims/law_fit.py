"""A test that the outputs of an audit's trials follow the law that the mechanism states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.estimation.goodness_of_fit import outputs_fit
from epsilometer.core.mechanism import HasLaws, Mechanism, Rewrites


def law_fit(
    mechanism: Mechanism | None,
    texts: Sequence[str],
    source: NDArray[np.integer],
    rewrites: Sequence[Rewrites],
    *,
    epsilons: Sequence[float],
) -> list[float | None]:
    """Return for each epsilon the p-value of the trials' units under the stated law; None without laws or units.

    source: [trials], indices of the rewritten texts. rewrites: one item per epsilon, with the rewrites of all trials.
    """
    units = [output.units for output in rewrites if output.units is not None]
    lawful: object = mechanism
    if not isinstance(lawful, HasLaws) or len(units) < len(rewrites):
        return [None] * len(epsilons)
    return list(outputs_fit(lawful.laws(texts), source, units, epsilons))
