"""Counter-fitting: moves word vectors so that synonyms are near and antonyms are far (Mrksic et al., NAACL 2016).

With d the cosine distance of unit vectors, the cost is .1 times the sum of three hinge terms:

- antonym repel:     max(0, DELTA - d) over pairs of antonyms;
- synonym attract:   max(0, d - GAMMA) over pairs of synonyms;
- space preserved:   max(0, d - d0) over pairs whose distance d0 at the start is at most RHO.

In each of 20 steps a vector moves against the mean gradient over its pairs with a positive hinge, and is rescaled to
length 1. A pair of antonyms counts in the first sum, and in no other. The constants are those of the reference code
(nmrksic/counter-fitting 8cf3cf4), which is deterministic, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.text.vectors import WordVectors

DELTA, GAMMA, RHO = 1.0, 0.0, 0.2
WEIGHT = 0.1  # weight of each of the three terms
STEPS = 20


class Term(NamedTuple):
    """A hinge of the cost: the sum over pairs [n, 2] of max(0, sign (d - bounds [n]))."""

    pairs: NDArray[np.int64]
    bounds: NDArray[np.float64]
    sign: int

    def cost(self, vectors: NDArray[np.float64]) -> float:
        """Return the value of the term at vectors [words, dimensions] of any length."""
        return float(np.maximum(0, self._excess(_cosines(vectors, self.pairs))).sum())

    def gradients(self, vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the term's gradient at unit vectors [words, dimensions], and each word's number of positive hinges."""
        cosines = _cosines(vectors, self.pairs)
        is_open = self._excess(cosines) > 0
        pairs, cosines = self.pairs[is_open], cosines[is_open, None]
        left, right = vectors[pairs[:, 0]], vectors[pairs[:, 1]]
        gradient = np.zeros_like(vectors)
        np.add.at(gradient, pairs[:, 0], self.sign * (cosines * left - right))
        np.add.at(gradient, pairs[:, 1], self.sign * (cosines * right - left))
        return gradient, np.bincount(pairs.ravel(), minlength=len(vectors))

    def _excess(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.sign * (1 - cosines - self.bounds)


def counter_fit(vectors: WordVectors, relations: pl.DataFrame) -> WordVectors:
    """Return the counter-fitted vectors, of length 1.

    relations: columns a, b (words) and relation ("synonym" or "antonym"). Raises UserError for a zero vector.
    """
    start = vectors.normalised()
    fitted = start.exact.copy()
    every = terms(start, relations)
    for _ in range(STEPS):
        gradient, count = np.zeros_like(fitted), np.zeros(len(fitted), np.int64)
        for term in every:
            of_term, times = term.gradients(fitted)
            gradient += of_term
            count += times
        fitted -= WEIGHT * gradient / np.maximum(count, 1)[:, None]
        fitted /= np.linalg.norm(fitted, axis=1, keepdims=True)
    return WordVectors(start.words, fitted)


def terms(vectors: WordVectors, relations: pl.DataFrame) -> list[Term]:
    """Return the three terms for unit vectors: antonym repel, synonym attract and space preserved."""
    antonyms = _pairs(vectors, relations.filter(pl.col("relation") == "antonym"))
    synonyms = _pairs(vectors, relations.filter(pl.col("relation") == "synonym"))
    rows, targets = vectors.near(np.arange(len(vectors)), float(np.sqrt(2 * RHO)))
    near = np.stack([rows, targets], axis=1)[rows < targets]
    code = np.array([len(vectors), 1])
    synonyms, near = (pairs[~np.isin(pairs @ code, antonyms @ code)] for pairs in (synonyms, near))
    return [
        Term(antonyms, np.full(len(antonyms), DELTA), -1),
        Term(synonyms, np.full(len(synonyms), GAMMA), 1),
        Term(near, 1 - _cosines(vectors.exact, near), 1),
    ]


def _pairs(vectors: WordVectors, relations: pl.DataFrame) -> NDArray[np.int64]:
    """Return the distinct pairs [n, 2] of indices of two different words with vectors, the smaller index first."""
    number = {word: i for i, word in enumerate(vectors.words)}
    both = {
        (min(number[a], number[b]), max(number[a], number[b]))
        for a, b in relations.select("a", "b").iter_rows()
        if a != b and a in number and b in number
    }
    return np.array(sorted(both), np.int64).reshape(-1, 2)


def _cosines(vectors: NDArray[np.float64], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    left, right = vectors[pairs[:, 0]], vectors[pairs[:, 1]]
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.einsum("nd,nd->n", left, right) / lengths
