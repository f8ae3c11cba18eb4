"""The largest loss of one unit of a mechanism as it is used, over its whole vocabulary, in nats.

A claim that grows with a distance says little about words that lie far apart: the pair with the least slack may lose
1 nat, and another pair 800 nats within its claim. The largest loss over all pairs of inputs x, x' and outputs y is

    max over y of (max over x of ln P(y | x) - min over x of ln P(y | x)),

computed in one pass over the laws. With too many laws, a sample of the inputs gives a lower bound; without laws, the
draws of a check do. The claim itself cannot give this loss, because it is in doubt.
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

_ENTRIES = 1e8  # most inputs times outputs whose laws are computed: seconds
_SAMPLED = 1e7  # the same for a sample, where there are more


def largest_losses(mechanism: Mechanism, findings: Sequence[Finding]) -> list[tuple[float, str] | None]:
    """Return the loss at the epsilon of each finding, and its evidence.

    The evidence is "exact", a "lower bound" (some inputs, all outputs) or "draws" (a lower bound for the words of the
    finding); None where nothing is known. findings: results of checks of the claim, for this mechanism or for one
    over a part of its vocabulary.
    """
    if not isinstance(mechanism, HasLaws) or not isinstance(mechanism, HasInputs):
        return [None if finding.largest is None else (finding.largest, "draws") for finding in findings]
    texts, outputs, how = list(mechanism.inputs), mechanism.laws(mechanism.inputs[:1]).outputs, "exact"
    if len(texts) * outputs > _ENTRIES:
        order = np.argsort(Noise.named(len(texts), "largest loss").uniforms()[:, 0])
        texts, how = [texts[i] for i in np.sort(order[: max(2, int(_SAMPLED / outputs))])], "lower bound"
    return [(loss, how) for loss in _over_all(mechanism.laws(texts), [finding.epsilon for finding in findings])]


def _over_all(laws: Laws, epsilons: Sequence[float]) -> list[float]:
    """Return one loss for each epsilon."""
    rows, units = one_law_each(laws)
    rows = np.unique(rows)
    high = np.full((len(epsilons), laws.outputs), -np.inf)
    low = np.full((len(epsilons), laws.outputs), np.inf)
    for start in range(0, len(rows), laws.chunk()):
        for i, table in enumerate(laws.log_probabilities(rows[start : start + laws.chunk()], epsilons)):
            high[i], low[i] = np.maximum(high[i], table.max(axis=0)), np.minimum(low[i], table.min(axis=0))
    possible = high > -math.inf
    return [units * float((top - least)[some].max()) for top, least, some in zip(high, low, possible, strict=True)]
