"""Learning with a known law: loss correction by the channel of a mechanism with few public outputs.

A mechanism turns a text into one of a public set of outputs y with a law P(y | n) that depends only on the text's
public type n: for exemplars, the nearest exemplar. A release y with the label c of its source is a draw from the sum
over n of h(n, c) P(y | n), where h(n, c) is the number of sources of type n and label c. Backward correction (Natarajan
et al., NeurIPS 2013) replaces the loss of a model f on the releases by the loss on the types, weighted by the unbiased
estimate of h with the inverse of P, whose weights may be negative. Here h is estimated by maximum likelihood, which is
never negative, by expectation maximisation (Agrawal and Aggarwal, PODS 2001). The model is then trained on the types'
own texts, weighted by h. It reads nothing private beyond the releases, so the claim still holds (post-processing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism

MOST = 4096  # largest number of outputs of a channel, and of types
_STEPS = 300
_LEAST = 1e-3  # of a text: smaller weights are left out

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Channel:
    """types: one text per type; law: [types, outputs], P(y | n)."""

    types: Sequence[str]
    law: Array

    def counts(self, outputs: NDArray[np.integer], classes: NDArray[np.integer], number: int) -> Array:
        """[types, number]: the number of sources of each type and class behind these releases, by maximum likelihood.

        outputs, classes: [n], one per release.
        """
        seen = np.zeros((self.law.shape[1], number))
        np.add.at(seen, (outputs, classes), 1)
        counts = np.repeat(seen.sum(axis=0, keepdims=True) / len(self.law), len(self.law), axis=0)
        for _ in range(_STEPS):
            expected = self.law.T @ counts
            ratio = np.divide(seen, expected, out=np.zeros_like(seen), where=expected > 0)
            counts *= self.law @ ratio
        return counts

    def examples(
        self, outputs: NDArray[np.integer], labels: Sequence[str]
    ) -> tuple[NDArray[np.intp], list[str], Array]:
        """The types, labels and weights of the examples to learn from, instead of these labelled releases."""
        classes = sorted({*labels})
        counts = self.counts(outputs, np.searchsorted(classes, labels), len(classes))
        types, numbers = np.nonzero(counts >= _LEAST)
        return types, [classes[i] for i in numbers], counts[types, numbers]


def channel(mechanism: Mechanism, epsilon: float, public: Sequence[str]) -> Channel | None:
    """The channel of a mechanism whose outputs are few, public, and one per text; None for any other.

    public: texts for the test that a text's type alone decides its law. A mechanism among the audited texts
    (`among_texts`) has no public outputs.
    """
    if getattr(mechanism, "among_texts", False) or not (
        isinstance(mechanism, HasLaws) and isinstance(mechanism, HasInputs)
    ):
        return None
    types = list(mechanism.inputs)
    if not 2 <= len(types) <= MOST or not 2 <= len(mechanism.output_texts) <= MOST:
        return None
    (law, single), (others, all_single) = (_laws(mechanism, texts, epsilon) for texts in (types, public))
    if not (single and all_single) or not {row.tobytes() for row in others} <= {row.tobytes() for row in law}:
        return None
    return Channel(types, law)


def _laws(mechanism: HasLaws, texts: Sequence[str], epsilon: float) -> tuple[Array, bool]:
    """P(y | x) [texts, outputs] and True if every text has one unit, else an empty array and False."""
    laws = mechanism.laws(texts)
    if (laws.rows.lengths != 1).any():
        return np.empty((0, laws.outputs)), False
    (log_law,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return np.exp(log_law), True
