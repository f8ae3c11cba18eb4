"""Learning with a known law: loss correction by the channel of a mechanism with few public outputs.

The mechanism turns a text into one of a public set of outputs y. Its law P(y | n) depends only on the text's type n.
For a mechanism that chooses among public exemplars, the type is the nearest exemplar. Let h(n, c) be the number of
private texts of type n and label c. Then the expected number of releases y with label c is the sum over n of
h(n, c) P(y | n).

h is estimated from the releases by maximum likelihood with expectation maximisation (Agrawal and Aggarwal, PODS 2001).
A model is then trained on one public text per type, weighted by h. Backward correction (Natarajan et al., NeurIPS 2013)
does the same with an unbiased estimate of h, whose weights may be negative. Weights by maximum likelihood are never
negative. The correction is post-processing: it uses nothing private beyond the releases, so the claim remains valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.mechanism import HasInputs, HasLaws, Mechanism

MOST = 4096  # maximum number of outputs of a channel, and of types
_STEPS = 300  # steps of expectation maximisation
_LEAST = 1e-3  # minimum weight of an example, in texts; examples of smaller weight are left out

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Channel:
    """The law of a mechanism with few public outputs. types: one text per type; law: [types, outputs], P(y | n)."""

    types: Sequence[str]
    law: Array

    def counts(self, outputs: NDArray[np.integer], classes: NDArray[np.integer], number: int) -> Array:
        """Estimate the number of private texts of each type and class by maximum likelihood.

        outputs, classes: [n], the output and the class of each release; number: the number of classes.
        Returns [types, number].
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
        """Return the types, labels and weights of the examples that replace these labelled releases in training."""
        classes = sorted({*labels})
        counts = self.counts(outputs, np.searchsorted(classes, labels), len(classes))
        types, numbers = np.nonzero(counts >= _LEAST)
        return types, [classes[i] for i in numbers], counts[types, numbers]


def channel(mechanism: Mechanism, epsilon: float, public: Sequence[str]) -> Channel | None:
    """Return the channel of a mechanism that releases one of at most MOST public outputs per text, else None.

    public: public texts, with which the function tests that every text has the law of one of the types. A mechanism
    that chooses among the audited texts (`among_texts`) has no public outputs.
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
    """Return P(y | text) [texts, outputs] and True if every text has one unit; else an empty array and False."""
    laws = mechanism.laws(texts)
    if (laws.rows.lengths != 1).any():
        return np.empty((0, laws.outputs)), False
    (log_law,) = laws.log_probabilities(laws.rows.values, [epsilon])
    return np.exp(log_law), True
