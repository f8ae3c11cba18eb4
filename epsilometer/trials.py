"""Candidate sets and targets: Probabilistic Transition Sampling (TeDA, arXiv:2603.22968, Appendix C).

The first candidate is uniform; each next one is drawn with probability proportional to exp(lambda * sum over the chosen
s of ln P(x | s)), where P(x | s) is a softmax of minus the cosine distance (TeDA eqs. 13 to 17). The normalisers of the
P(. | s) do not depend on x and cancel, so the weight is exp(lambda * sum of cosines): lambda = -10,000 picks the most
dissimilar text, 0 a uniform one, +10,000 the most similar one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.errors import UserError
from epsilometer.randomness import Noise

_CELLS = 1 << 18  # similarities at a time: the working arrays stay in the processor's cache
_GRAM = 1 << 26  # texts squared up to which all similarities are computed once (float32: 256 MB)
_GRID = 2.0**20  # cosines are rounded to this grid: the same trials on every machine, and sums exact in float32


@dataclass(frozen=True)
class Trials:
    """candidates: int32 [count, k] text numbers, distinct in a row; target: int8 [count], the source's slot."""

    candidates: NDArray[np.int32]
    target: NDArray[np.int8]

    @property
    def source(self) -> NDArray[np.int32]:
        """[count]: the text that goes into the mechanism."""
        return self.candidates[np.arange(len(self.target)), self.target]


def sample(
    embeddings: NDArray[np.float32],
    count: int,
    candidates: int = 2,
    temperature: float = -10_000,
    seed: int | str = 0,
    groups: NDArray[np.integer] | None = None,
) -> Trials:
    """Draw `count` candidate sets of `candidates` texts and, uniformly, which of them is the source.

    embeddings: [texts, dimensions], unit rows (zeros allowed). groups: [texts] or None: a set's texts then share a
    group (their number of words, say); texts of groups with fewer than `candidates` members are never drawn.
    Memory: O(count * candidates), and the similarities of up to 8,192 texts; beyond that, blocks of them.
    Raises UserError when `count` < 1, or `candidates` is below 2 or above the number of texts.
    """
    total = len(embeddings)
    if count < 1:
        raise UserError(f"trials must be >= 1, got {count}")
    if not 2 <= candidates <= total:
        raise UserError(
            f"candidates (k) must be between 2 and the number of distinct texts ({total}), got {candidates}"
        )
    members = [np.arange(total)] if groups is None else [np.flatnonzero(groups == g) for g in np.unique(groups)]
    members = [m for m in members if len(m) >= candidates]
    if not members:
        raise UserError(f"no group has the {candidates} texts that a candidate set needs; use a smaller k or no match")
    uniforms = Noise.named(count, seed, "trials").uniforms(candidates + 1)
    pool = np.concatenate(members)
    first = (uniforms[:, 0] * len(pool)).astype(np.int64)  # a place in the pool
    chosen = np.empty((count, candidates), np.int32)
    border = 0
    for group in members:
        rows = np.flatnonzero((first >= border) & (first < border + len(group)))
        local = _extend(
            np.asarray(embeddings, np.float32)[group], first[rows] - border, uniforms[rows, 1:-1], temperature
        )
        chosen[rows] = group[local]
        border += len(group)
    target = (uniforms[:, -1] * candidates).astype(np.int8)
    return Trials(chosen, target)


def _extend(
    embeddings: NDArray[np.float32], first: NDArray[np.int64], uniforms: NDArray[np.float64], temperature: float
) -> NDArray[np.int64]:
    """[n, k] sets that begin with `first` [n]; uniforms: [n, k - 1], one for each further candidate."""
    count, more = uniforms.shape
    chosen = np.empty((count, more + 1), np.int64)
    chosen[:, 0] = first
    texts = len(embeddings)
    gram = _cosines(embeddings, embeddings) if texts**2 <= _GRAM else None

    def similarity(of: NDArray[np.int64]) -> NDArray[np.float32]:
        return gram[of] if gram is not None else _cosines(embeddings[of], embeddings)

    chunk = max(1, _CELLS // texts)
    # Sets of one text repeat, so the second candidates of all sets with one first text are drawn from one law.
    order = np.argsort(first, kind="stable")
    singles, state = np.unique(first[order], return_inverse=True)
    for start in range(0, len(singles), chunk):
        part = singles[start : start + chunk]
        drawn = slice(*np.searchsorted(state, [start, start + len(part)]))
        rows = order[drawn]
        chosen[rows, 1] = _draw(similarity(part), part[:, None], state[drawn] - start, uniforms[rows, 0], temperature)
    # Larger sets hardly ever repeat: each has a law of its own, updated by one text a step.
    for start in range(0, count if more > 1 else 0, chunk):
        sets = chosen[start : start + chunk]
        score = similarity(sets[:, 0])
        for step in range(1, more):
            score += similarity(sets[:, step])
            uniform = uniforms[start : start + chunk, step]
            sets[:, step + 1] = _draw(score.copy(), sets[:, : step + 1], np.arange(len(sets)), uniform, temperature)
    return chosen


def _cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    product: NDArray[np.float32] = left @ right.T
    product *= _GRID
    np.rint(product, out=product)
    product /= _GRID
    return product


def _draw(
    score: NDArray[np.float32],
    taken: NDArray[np.int64],
    state: NDArray[np.int64],
    uniform: NDArray[np.float64],
    temperature: float,
) -> NDArray[np.int64]:
    """Draw from softmax(temperature * score[state]) outside `taken`: one text for each uniform. Overwrites `score`."""
    states, texts = score.shape
    rows = np.arange(states)[:, None]
    score[rows, taken] = -np.inf if temperature >= 0 else np.inf
    score -= score.max(axis=1, keepdims=True) if temperature >= 0 else score.min(axis=1, keepdims=True)
    score[rows, taken] = 0
    score *= np.float32(temperature)
    np.maximum(score, -80, out=score)  # e^-80 is nothing beside 1, and denormal numbers are slow
    np.exp(score, out=score)
    score[rows, taken] = 0
    # One running sum and one search over all rows.
    cdf = np.cumsum(score.ravel(), dtype=np.float64)
    ends = cdf[texts - 1 :: texts]
    begins = np.append(0.0, ends[:-1])
    place = np.searchsorted(cdf, begins[state] + uniform * (ends - begins)[state], side="right")
    return np.clip(place - state * texts, 0, texts - 1)
