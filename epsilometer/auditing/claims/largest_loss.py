"""The largest loss of one unit of a mechanism as it is used, over its whole vocabulary, in nats.

A claim that grows with a distance says little where words lie far apart: the pair with the least slack may lose 1 nat
and another pair, within its claim, 800. The largest loss over all pairs of inputs x, x' and outputs y is

    max over y of (max over x of ln P(y | x) - min over x of ln P(y | x)),

one pass over the laws. Where they are too many, or there are none, the claim bounds it: epsilon times the largest
distance that the claim covers.
"""

from __future__ import annotations

import math

import numpy as np

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.claims.worst_case import one_law_each
from epsilometer.core.mechanism import HasDistance, HasInputs, HasLargestDistance, HasLaws, Mechanism

_ENTRIES = 1e8  # inputs times outputs whose laws are computed: seconds


def largest_loss(mechanism: Mechanism, epsilon: float, finding: Finding) -> tuple[float, str] | None:
    """The loss, and how it is known: "exact", "bound" (what the claim allows), "sampled" (a lower bound).

    finding: what a check of the claim came to, of this mechanism or one over a part of its vocabulary. None where
    nothing is known.
    """
    if isinstance(mechanism, HasLaws) and isinstance(mechanism, HasInputs):
        outputs = mechanism.laws(mechanism.inputs[:1]).outputs
        if len(mechanism.inputs) * outputs <= _ENTRIES:
            return _over_all(mechanism, epsilon), "exact"
    claim = mechanism.guarantee(epsilon)
    if claim is not None and not claim.delta and finding.verdict != VIOLATED:
        if isinstance(mechanism, HasLargestDistance):
            return claim.epsilon * mechanism.largest_distance(epsilon), "bound"
        if not isinstance(mechanism, HasDistance):  # a claim for whole texts
            return claim.epsilon, "bound"
    return None if finding.largest is None else (finding.largest, "sampled")


def _over_all(mechanism: Mechanism, epsilon: float) -> float:
    assert isinstance(mechanism, HasLaws)
    assert isinstance(mechanism, HasInputs)
    laws = mechanism.laws(mechanism.inputs)
    rows, units = one_law_each(laws)
    high, low = np.full(laws.outputs, -np.inf), np.full(laws.outputs, np.inf)
    rows = np.unique(rows)
    for start in range(0, len(rows), laws.chunk()):
        (table,) = laws.log_probabilities(rows[start : start + laws.chunk()], [epsilon])
        high, low = np.maximum(high, table.max(axis=0)), np.minimum(low, table.min(axis=0))
    possible = high > -math.inf
    return units * float((high[possible] - low[possible]).max())
