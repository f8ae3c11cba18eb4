"""The lexical attack: guesses the candidate with the largest cosine of TF-IDF vectors of character n-grams.

The attack needs no model. In scripts without spaces between words, n-grams come from runs of characters, and single
characters also count (`text.words.with_spaces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from epsilometer.core.attack import ByScore, Context
from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.text.words import with_spaces

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

Fitted = tuple["CountVectorizer", "TfidfTransformer", "csr_matrix"]
_ROWS = 1 << 15


@component
class LexicalAttack(ByScore):
    """The lexical attack, on n-grams of `shortest` to `longest` characters. IDF weights come from the audited texts."""

    shortest: PositiveInt = 2
    longest: PositiveInt = 4

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float64]]:
        """Score all epsilons at once. The n-grams of the audited texts are counted once, and cached for later calls."""
        counter, weights, features = _fitted(tuple(contexts[0].texts), self.shortest, self.longest)
        by_epsilon = []
        for output in rewrites:
            scores = np.empty(candidates.shape)
            for start in range(0, len(candidates), _ROWS):
                part = slice(start, start + _ROWS)
                seen = weights.transform(_counted(counter, output.texts[part]), copy=False)
                if 2 * candidates.shape[1] > features.shape[0]:  # more than half of all texts: one product is faster
                    cosines = (seen @ features.T).toarray()
                    scores[part] = np.take_along_axis(cosines, candidates[part].astype(np.int64), axis=1)
                    continue
                for slot in range(candidates.shape[1]):
                    scores[part, slot] = seen.multiply(features[candidates[part, slot]]).sum(axis=1).A1
            by_epsilon.append(scores)
        return by_epsilon


@lru_cache(maxsize=1)  # calls for different trials share the texts
def _fitted(texts: tuple[str, ...], shortest: int, longest: int) -> Fitted:
    """Return the n-gram counter, the TF-IDF weighting, and the TF-IDF vectors of these texts."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    counter = CountVectorizer(analyzer="char_wb", ngram_range=(shortest, longest), dtype=np.float32)
    weights, counts = TfidfTransformer(sublinear_tf=True), counter.fit_transform(map(with_spaces, texts))
    return counter, weights, weights.fit_transform(counts)


def _counted(counter: CountVectorizer, texts: Sequence[str]) -> csr_matrix:
    """Return the counts of n-grams in each text, [texts, n-grams]. Distinct words are counted once."""
    from scipy.sparse import csr_matrix

    rows = [with_spaces(text).split() for text in texts]
    place = {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(rows)))}
    borders = np.cumsum([0, *map(len, rows)])
    numbers = np.fromiter(map(place.__getitem__, chain.from_iterable(rows)), np.int64, borders[-1])
    words = csr_matrix((np.ones(len(numbers), np.float32), numbers, borders), (len(rows), len(place)))
    counts = words @ counter.transform(place)
    counts.sort_indices()
    return counts
