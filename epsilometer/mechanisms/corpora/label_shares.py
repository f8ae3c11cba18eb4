"""Shares of labels among people: releases noisy totals of the votes that people cast for the labels of their texts.

Each text is a vote for its label. At most c texts of a person count, selected by a keyed hash, and noise is added to
each label's total. This is `vote_histogram` with one cell per label, and has the same claim. The noise has scale
b = 2 c / epsilon for a replaced person, and c / epsilon for a person added or removed. A person with 1,000 texts counts
as much as a person with c texts, so the shares are of people and not of texts. Shares of texts would need enough noise
to hide the person with the most texts.

The noise of a total is smaller here, by a factor sqrt(m), than in `vote_histogram`, where a label's total is the sum of
the cells of m exemplars.
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
    """Shares of labels. The release has one row per label, with the label as text and its share as weight.

    labels, unit, most, neighbours, delta: as in `shared/base.py` and `shared/counting.py`.
    """

    @model_validator(mode="after")
    def _several(self) -> LabelShares:
        if len(self.labels) < 2:
            raise ValueError("give at least two labels; the share of a single label is always 1")
        return self

    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        """Return the private totals of the L labels, [L]."""
        return np.bincount(self.voters(corpus, key)[1], minlength=len(self.labels))

    def published(self, table: NDArray[np.int64], epsilon: float) -> Release:
        """Return the shares of noisy totals [L]. Negative totals count as 0; if none is positive, shares are equal."""
        weights = np.maximum(table, 0).astype(np.float64)
        weights = weights / weights.sum() if weights.any() else np.full(len(table), 1 / len(table))
        return Release(list(self.labels), weights, list(self.labels))
