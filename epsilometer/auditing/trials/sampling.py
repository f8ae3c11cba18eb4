"""Candidate sets and targets: Probabilistic Transition Sampling (TeDA, arXiv:2603.22968, Appendix C).

The first candidate is uniform. Each further candidate x is drawn with probability proportional to exp(lambda * sum of
ln P(x | s) over the candidates s chosen so far), where P(x | s) is a softmax of minus the cosine distance (TeDA eqs. 13
to 17). The normalisers of P(. | s) do not depend on x and cancel, so the weight is exp(lambda * sum of cosines). At
the temperature lambda = -10,000 the least similar text is chosen. At lambda = 0 the text is uniform, and at +10,000
the most similar text is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.trials.design import check_trials
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise

_CELLS = 1 << 18  # similarities processed at a time, to fit in the processor's cache
_TRIALS = 1 << 14  # trials processed at a time, to fit in the cache
_BLOCK = 1 << 23  # similarities in one matrix product: enough rows for full speed (float32: 32 MB)
_ROWS = 64  # fewest rows of a matrix product
_GRAM = 1 << 26  # all similarities are computed once if there are at most this many (float32: 256 MB)
_GRID = 2.0**20  # cosines are rounded to 1 / _GRID, so trials are equal on all machines, and sums are exact in float32
_REACH = 80  # texts this many nats below the likeliest text are never drawn: e^-80 is negligible


@dataclass(frozen=True)
class Trials:
    """Candidate sets with their sources.

    candidates: int32 [count, k], indices of texts, distinct within a row. target: int16 [count], the source's slot.
    """

    candidates: NDArray[np.int32]
    target: NDArray[np.int16]

    @classmethod
    def of(cls, table: pl.DataFrame) -> Trials:
        """Return the trials of a table of schema `TRIALS`."""
        return cls(table["candidates"].explode().to_numpy().reshape(len(table), -1), table["target"].to_numpy())

    @cached_property
    def source(self) -> NDArray[np.int32]:
        """The indices of the rewritten texts [count]."""
        if is_shared(self.candidates):
            return self.candidates[0].take(self.target)
        return self.candidates.ravel().take(np.arange(0, self.candidates.size, self.candidates.shape[1]) + self.target)

    def by_prior(self, prior: Sequence[float], seed: int) -> Trials:
        """Return the same candidates with new sources: the source is in slot i with probability prior[i]."""
        uniform = Noise.named(len(self.target), seed, "trials", "prior").uniforms()[:, 0]
        target = np.searchsorted(np.cumsum(prior)[:-1], uniform, side="right")
        return Trials(self.candidates, target.astype(np.int16))


def of_all(texts: int, count: int, seed: int | str = 0) -> Trials:
    """Return trials with all texts as candidates, in the texts' order; all trials share one row in memory.

    Raises UserError as `sample` does.
    """
    _check(texts, count, texts)
    target = (Noise.named(count, seed, "trials", "all").uniforms()[:, 0] * texts).astype(np.int16)
    return Trials(np.broadcast_to(np.arange(texts, dtype=np.int32), (count, texts)), target)


def is_shared(candidates: NDArray[np.integer]) -> bool:
    """Return True if all trials have the same candidates, stored as one shared row (`of_all`)."""
    return len(candidates) > 1 and candidates.strides[0] == 0


def _check(texts: int, count: int, candidates: int) -> None:
    check_trials(count)
    if candidates > np.iinfo(np.int16).max:
        raise UserError(f"candidates (k) must be at most {np.iinfo(np.int16).max:,}, got {candidates}", "EPS-A187")
    if texts < 2:
        many = "1 distinct text" if texts else "no text"
        raise UserError(f"trials need at least 2 distinct texts, got {many}; give more texts", "EPS-A188")
    if not 2 <= candidates <= texts:
        raise UserError(
            f"candidates (k) must be between 2 and the number of distinct texts ({texts}), got {candidates}", "EPS-A189"
        )


def sample(
    embeddings: NDArray[np.float32],
    count: int,
    candidates: int = 2,
    temperature: float = -10_000,
    seed: int | str = 0,
    groups: NDArray[np.integer] | None = None,
) -> Trials:
    """Return `count` sets of `candidates` distinct texts, each with a uniformly drawn source.

    embeddings: [texts, dimensions], unit rows (zeros allowed); at temperature 0 only the number of rows matters.
    groups:     [texts] or None. All texts of a set are from one group (such as texts with equally many words). Texts of
                groups with fewer than `candidates` members are never drawn.

    Memory: O(count * candidates), plus the similarities of all texts if there are at most 8,192 texts, else blocks of
    similarities. Raises UserError if `count` < 1, if `candidates` is below 2 or above the number of texts, or if no
    group is large enough.
    """
    total = len(embeddings)
    _check(total, count, candidates)
    members = [np.arange(total)] if groups is None else [np.flatnonzero(groups == g) for g in np.unique(groups)]
    members = [m for m in members if len(m) >= candidates]
    if not members:
        raise UserError(
            f"no group has the {candidates} texts that a candidate set needs; use a smaller k or no match", "EPS-A190"
        )
    vectors = np.asarray(embeddings, np.float32)
    pools = [vectors if groups is None else vectors[texts] for texts in members]
    noise = Noise.named(count, seed, "trials")
    places, target = np.empty((count, candidates), np.int32), np.empty(count, np.int16)
    # If cosines are needed, processing all trials at once saves work, since many trials begin with the same text.
    step = count if temperature else _TRIALS
    for part in (slice(start, start + step) for start in range(0, count, step)):
        uniforms = noise[part].uniforms(candidates + 1)
        # Copying column by column is four times as fast.
        for slot, column in enumerate(_places(pools, uniforms[:, :-1], temperature).T):
            places[part, slot] = column
        target[part] = uniforms[:, -1] * candidates
    return Trials(places if groups is None else np.concatenate(members, dtype=np.int32)[places], target)


def _places(
    pools: Sequence[NDArray[np.float32]], uniforms: NDArray[np.float64], temperature: float
) -> NDArray[np.integer]:
    """Return sets [n, k] of indices over all pools, from uniforms [n, k]. pools: the embeddings of each pool.

    The first text of a set is drawn among all pools, and the other texts from the first text's pool.
    """
    first = (uniforms[:, 0] * sum(map(len, pools))).astype(np.int64)
    if len(pools) == 1:
        return _extend(pools[0], first, uniforms[:, 1:], temperature)
    places, border = np.empty(uniforms.shape, np.int64), 0
    for pool in pools:
        rows = np.flatnonzero((first >= border) & (first < border + len(pool)))
        if len(rows):  # with few trials, a small group may have no trial
            places[rows] = border + _extend(pool, first[rows] - border, uniforms[rows, 1:], temperature)
        border += len(pool)
    return places


def furthest(embeddings: NDArray[np.float32], groups: NDArray[np.integer] | None = None) -> NDArray[np.int64]:
    """Return [texts]: for each text the index of the least similar text, within its group if there are groups.

    Of equally dissimilar texts (on the grid of `sample`), return the first; -1 for a text that is alone in its group.
    """
    unit = np.asarray(embeddings, np.float32)
    other = np.full(len(unit), -1, np.int64)
    members = [np.arange(len(unit))] if groups is None else [np.flatnonzero(groups == g) for g in np.unique(groups)]
    for group in members:
        step = max(_ROWS, _BLOCK // len(group))
        for start in range(0, len(group) if len(group) > 1 else 0, step):
            part = np.arange(start, min(start + step, len(group)))
            score = _scores(unit[group[part]], unit[group], -1.0)
            score[np.arange(len(part)), part] = -np.inf
            other[group[part]] = group[score.argmax(axis=1)]
    return other


def matched(candidates: NDArray[np.integer], words: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return [count]: True if all candidates of a trial have equally many words. words: [texts], numbers of words.

    Mechanisms on single words keep the number of words, which may reveal the source.
    """
    if is_shared(candidates):
        return np.full(len(candidates), matched(candidates[:1], words)[0])
    if (words == words[0]).all():
        return np.ones(len(candidates), bool)
    first, *others = words[candidates.T]
    return np.all([other == first for other in others], axis=0)


def variety(candidates: NDArray[np.integer]) -> dict[str, float]:
    """Return the number of texts that serve as distractors, and the share of slots that the five most-used texts fill.

    candidates: [count, k]. The first candidate of a set is uniform, so only the other candidates are counted. If a few
    texts fill most slots, losses are averages over pairs with these texts, and not over all pairs.
    """
    if is_shared(candidates):
        return {"distinct": candidates.shape[1], "five_commonest": min(1.0, 5 / candidates.shape[1])}
    counts = np.bincount(candidates[:, 1:].ravel())
    return {
        "distinct": int(np.count_nonzero(counts)),
        "five_commonest": float(np.sort(counts)[-5:].sum() / counts.sum()),
    }


def _extend(
    embeddings: NDArray[np.float32], first: NDArray[np.int64], uniforms: NDArray[np.float64], temperature: float
) -> NDArray[np.int64]:
    """Return sets [n, k] that begin with the texts `first` [n]. uniforms: [n, k - 1], one per further candidate."""
    texts, (count, more) = len(embeddings), uniforms.shape
    if temperature == 0:
        return _without_replacement(first, uniforms, texts)
    chosen = np.empty((count, more + 1), np.int64)
    chosen[:, 0] = first
    # Many sets begin with the same text, so their second candidates are drawn together from one law.
    order = np.argsort(first.astype(np.min_scalar_type(texts)), kind="stable")  # 16-bit numbers are sorted by radix
    ascending = first[order]
    starts = np.append(True, ascending[1:] != ascending[:-1])
    singles, state = ascending[starts], np.cumsum(starts) - 1
    # The matrix of all similarities is symmetric, so computing it takes half the work of its rows one by one.
    whole = texts**2 <= _GRAM and (more > 1 or 2 * len(singles) > texts)
    gram = _scores(embeddings, embeddings, temperature) if whole else None
    rows = max(1, _CELLS // texts) if whole else max(_ROWS, _BLOCK // texts)
    slope = np.float32(abs(temperature) / _GRID)

    def scores(of: NDArray[np.int64]) -> NDArray[np.float32]:
        return gram[of] if gram is not None else _scores(embeddings[of], embeddings, temperature)

    for start in range(0, len(singles), rows):
        part = singles[start : start + rows]
        sets = order[slice(*np.searchsorted(state, [start, start + len(part)]))]
        score = scores(part)
        score[np.arange(len(part)), part] = -np.inf
        chosen[sets, 1] = _draw(score, np.searchsorted(part, first[sets]), uniforms[sets, 0], slope)
    # From the third text on, sets are not grouped: each has a separate law, updated by one text per step.
    for start in range(0, count if more > 1 else 0, rows):
        part = chosen[start : start + rows]
        every = np.arange(len(part))
        score = scores(part[:, 0])
        score[every, part[:, 0]] = -np.inf
        for step in range(1, more):
            score += scores(part[:, step])
            score[every, part[:, step]] = -np.inf
            part[:, step + 1] = _draw(score, every, uniforms[start : start + rows, step], slope)
    return chosen


def _scores(left: NDArray[np.float32], right: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """Return cosines [n, m] in units of the grid, times the temperature's sign: largest for the likeliest text."""
    product: NDArray[np.float32] = left @ right.T
    product *= np.float32(math.copysign(_GRID, temperature))
    return np.rint(product, out=product)


def _draw(
    score: NDArray[np.float32], state: NDArray[np.int64], uniform: NDArray[np.float64], slope: np.float32
) -> NDArray[np.int64]:
    """Return indices of texts [n], one per uniform [n], drawn from softmax(slope * score[state]).

    score: [states, texts], -inf for texts that must not be drawn. state: [n], the row of `score` for each uniform,
    ascending. Only texts within _REACH nats of a row's largest score are used; these texts are few if the slope is
    large.
    """
    states, texts = score.shape
    out = np.empty(len(uniform), np.int64)
    step = max(1, _CELLS // texts)
    for start in range(0, states, step):
        part = score[start : start + step]
        rows = slice(*np.searchsorted(state, [start, start + len(part)]))
        largest = part.max(axis=1, keepdims=True)
        near = np.flatnonzero(part >= largest - _REACH / slope)
        row, text = np.divmod(near, texts)
        # One running sum and one search serve all rows.
        cdf = np.cumsum(np.exp((part[row, text] - largest[row, 0]) * slope), dtype=np.float64)
        borders = np.searchsorted(row, np.arange(len(part) + 1))
        ends = cdf[borders[1:] - 1]
        begins = np.append(0.0, ends[:-1])
        of = state[rows] - start
        place = np.searchsorted(cdf, begins[of] + uniform[rows] * (ends - begins)[of], side="right")
        out[rows] = text[np.clip(place, borders[of], borders[of + 1] - 1)]
    return out


def _without_replacement(first: NDArray[np.int64], uniforms: NDArray[np.float64], texts: int) -> NDArray[np.int64]:
    """Return sets as `_extend` does at temperature 0: each uniform gives a rank among the remaining texts."""
    count, more = uniforms.shape
    chosen = np.empty((more + 1, count), np.int32)
    chosen[0] = first
    ascending = chosen.copy()  # the texts chosen so far for each set, in order
    for step in range(1, more + 1):
        text = np.minimum((uniforms[:, step - 1] * (texts - step)).astype(np.int32), np.int32(texts - step - 1))
        for taken in ascending[:step]:
            text += text >= taken
        chosen[step] = text
        if step < more:
            ascending[step] = text
            ascending[: step + 1].sort(axis=0)
    return chosen.T
