"""Shares of labels among people: each person casts votes for the labels of their texts, and noisy totals are released.

At most c texts of a person count, the first by a keyed hash, and noise is added to each label's total. It is
`vote_histogram` with one cell for each label, and has its claim: b = 2 c / epsilon for a replaced person, c / epsilon
for one that is added or removed. A person who writes 1,000 texts counts as much as one who writes c, so shares are of
people, not of texts. Shares of texts would need noise for the person who writes most.

A table of its own has less noise than the totals of a table of exemplars and labels, by the square root of m.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.mechanisms.corpora.shared.base import NoisyVotes


@component
class LabelShares(NoisyVotes):
    """A row for each label, whose text is the label and whose weight is its share.

    labels, unit, most, neighbours, delta: as in `shared/base.py`.
    """

    @model_validator(mode="after")
    def _several(self) -> LabelShares:
        if len(self.labels) < 2:
            raise ValueError("labels must be at least two, as the share of a single one is 1")
        return self

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        """Return the private totals [L]."""
        return np.bincount(self.voters(corpus, key)[1], minlength=len(self.labels))

    def published(self, table: NDArray[np.int64], epsilon: float) -> Release:
        """Return the shares of noisy totals [L], negative ones as 0; equal shares if none is positive."""
        weights = np.maximum(table, 0).astype(np.float64)
        weights = weights / weights.sum() if weights.any() else np.full(len(table), 1 / len(table))
        return Release(list(self.labels), weights, list(self.labels))
