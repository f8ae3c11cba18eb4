"""Sparse retrieval: links the facts about a person to the rewrite with the largest BM25, as a search engine does.

This attack is the first linker of Xin et al. ("A False Sense of Privacy", arXiv:2504.21035, section 3.2). Let f be the
count of word t in rewrite d, and |d| the number of words in d. Let N be the number of rewrites, and df the number of
rewrites with t. Let q be the words of all facts about a person. The score of d is (Robertson and Zaragoza 2009, with a
non-negative idf)

    sum over t in q of  ln(1 + (N - df + 1/2) / (df + 1/2))  f (k1 + 1) / (f + k1 (1 - b + b |d| / mean |d|)).

Words match only if they are equal; synonyms do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat

from epsilometer.core.component import component
from epsilometer.core.linking import Facts
from epsilometer.text.words import words


@component
class BM25:
    """The BM25 linker. k1: weight of repeated words; 0 ignores repeats. b: penalty of long rewrites, 0 to 1."""

    k1: NonNegativeFloat = 1.5
    b: Annotated[float, Field(ge=0, le=1)] = 0.75

    def link(self, facts: Sequence[Facts], rewrites: Sequence[str]) -> NDArray[np.float64]:
        """Return the BM25 scores [m, N] of N rewrites for the facts about m people, ignoring case."""
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(analyzer=words, dtype=np.float64)
        try:
            counts = counter.fit_transform(rewrites).tocoo()
        except ValueError:  # no rewrite contains a word
            return np.zeros((len(facts), len(rewrites)))
        lengths = np.bincount(counts.row, counts.data, minlength=len(rewrites))
        having = np.bincount(counts.col, minlength=counts.shape[1])
        idf = np.log1p((len(rewrites) - having + 0.5) / (having + 0.5))
        longer = (1 - self.b + self.b * lengths / lengths.mean())[counts.row]
        counts.data *= idf[counts.col] * (self.k1 + 1) / (counts.data + self.k1 * longer)
        query = counter.transform([" ".join(some) for some in facts])
        scores: NDArray[np.float64] = (query @ counts.T.tocsr()).toarray()
        return scores
