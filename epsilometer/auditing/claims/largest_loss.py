"""The largest loss of one unit of a mechanism over its whole vocabulary, in nats.

A claim that grows with distance allows any loss between distant words: the pair nearest to its claim may lose 1 nat,
while another pair loses 800 nats and is within its claim. The largest loss over all pairs of inputs x, x' and outputs y
is

    max over y of (max over x of ln P(y | x) - min over x of ln P(y | x)),

computed in one pass over the laws. If there are too many laws, a sample of the inputs gives a lower bound. Without
laws, the draws that checked the claim give a lower bound. The claim itself is not used, because it is under test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilometer.auditing.claims.finding import Finding
from epsilometer.auditing.claims.worst_case import one_law_each
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism
from epsilometer.core.randomness import Noise

_ENTRIES = 1e8  # largest number of inputs times outputs to compute, which takes seconds
_SAMPLED = 1e7  # if there are more, inputs times outputs to compute for a sample of the inputs


def largest_losses(mechanism: Mechanism, findings: Sequence[Finding]) -> list[tuple[float, str] | None]:
    """Return the largest loss at the epsilon of each finding, and its evidence; None if there is no evidence.

    The evidence is "exact", "lower bound" (some inputs, all outputs) or "draws" (a lower bound over the finding's
    inputs). findings: checks of the claim of this mechanism, possibly over a part of its vocabulary.
    """
    if not isinstance(mechanism, HasLaws) or not isinstance(mechanism, HasInputs):
        return [None if finding.largest is None else (finding.largest, "draws") for finding in findings]
    texts, outputs, how = list(mechanism.inputs), mechanism.laws(mechanism.inputs[:1]).outputs, "exact"
    if len(texts) * outputs > _ENTRIES:
        order = np.argsort(Noise.named(len(texts), "largest loss").uniforms()[:, 0])
        texts, how = [texts[i] for i in np.sort(order[: max(2, int(_SAMPLED / outputs))])], "lower bound"
    return [(loss, how) for loss in _over_all(mechanism.laws(texts), [finding.epsilon for finding in findings])]


def _over_all(laws: Laws, epsilons: Sequence[float]) -> list[float]:
    """Return the largest loss between any two of the laws, for each epsilon."""
    rows, units = one_law_each(laws)
    rows = np.unique(rows)
    high = np.full((len(epsilons), laws.outputs), -np.inf)
    low = np.full((len(epsilons), laws.outputs), np.inf)
    for start in range(0, len(rows), laws.chunk()):
        for i, table in enumerate(laws.log_probabilities(rows[start : start + laws.chunk()], epsilons)):
            high[i], low[i] = np.maximum(high[i], table.max(axis=0)), np.minimum(low[i], table.min(axis=0))
    possible = high > -math.inf
    return [units * float((top - least)[some].max()) for top, least, some in zip(high, low, possible, strict=True)]
