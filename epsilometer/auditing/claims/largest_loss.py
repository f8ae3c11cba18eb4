"""The largest loss of one unit of a mechanism as it is used, over its whole vocabulary, in nats.

A claim that grows with a distance says little where words lie far apart: the pair with the least slack may lose 1 nat
and another pair, within its claim, 800. The largest loss over all pairs of inputs x, x' and outputs y is

    max over y of (max over x of ln P(y | x) - min over x of ln P(y | x)),

one pass over the laws. Where they are too many, or there are none, the claim bounds it: epsilon times the largest
distance that the claim covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.claims.worst_case import one_law_each
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasDistance, HasInputs, HasLargestDistance, HasLaws, Mechanism

_ENTRIES = 1e8  # inputs times outputs whose laws are computed: seconds


def largest_losses(mechanism: Mechanism, findings: Sequence[Finding]) -> list[tuple[float, str] | None]:
    """The loss at the epsilon of each finding, and how it is known.

    It is "exact", a "bound" (what the claim allows) or "sampled" (a lower bound); None where nothing is known.
    findings: what checks of the claim came to, of this mechanism or one over a part of its vocabulary.
    """
    if isinstance(mechanism, HasLaws) and isinstance(mechanism, HasInputs):
        laws = mechanism.laws(mechanism.inputs[:1])
        if len(mechanism.inputs) * laws.outputs <= _ENTRIES:
            epsilons = [finding.epsilon for finding in findings]
            return [(loss, "exact") for loss in _over_all(mechanism.laws(mechanism.inputs), epsilons)]
    return [_bound(mechanism, finding) for finding in findings]


def _bound(mechanism: Mechanism, finding: Finding) -> tuple[float, str] | None:
    claim = mechanism.guarantee(finding.epsilon)
    if claim is not None and not claim.delta and finding.verdict != VIOLATED:
        if isinstance(mechanism, HasLargestDistance):
            return claim.epsilon * mechanism.largest_distance(finding.epsilon), "bound"
        if not isinstance(mechanism, HasDistance):  # a claim for whole texts
            return claim.epsilon, "bound"
    return None if finding.largest is None else (finding.largest, "sampled")


def _over_all(laws: Laws, epsilons: Sequence[float]) -> list[float]:
    """Returns one loss for each epsilon."""
    rows, units = one_law_each(laws)
    rows = np.unique(rows)
    high = np.full((len(epsilons), laws.outputs), -np.inf)
    low = np.full((len(epsilons), laws.outputs), np.inf)
    for start in range(0, len(rows), laws.chunk()):
        for i, table in enumerate(laws.log_probabilities(rows[start : start + laws.chunk()], epsilons)):
            high[i], low[i] = np.maximum(high[i], table.max(axis=0)), np.minimum(low[i], table.min(axis=0))
    possible = high > -math.inf
    return [units * float((top - least)[some].max()) for top, least, some in zip(high, low, possible, strict=True)]
