"""Which pairs of texts are compared, and how likely each is where trials are drawn.

The candidate sets of an audit (`auditing/trials/sampling.py`) decide. At a temperature of -10,000 or less the second
candidate is the text most dissimilar to the first, so that all pairs can be enumerated and nothing is left to chance
(but for texts within some 1e-4 of a cosine of it, which trials draw as well). At 0 all pairs of texts are as likely.
Else the distinct pairs of the trials drawn stand for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.trials.sampling import Trials, furthest
from epsilometer.text.words import words

FURTHEST = -10_000  # the temperature from which on down the second candidate is taken to be the most dissimilar


@dataclass(frozen=True)
class CandidateSets:
    """Distinct sets of k texts.

    numbers: int64 [n, k] of texts; weights: [n], how likely each set is; they sum to 1.
    """

    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]

    def of_equal_length(self, texts: Sequence[str]) -> tuple[CandidateSets, float]:
        """The sets whose texts have equally many words, weighed among themselves, and their share of all."""
        lengths = _lengths(texts)[self.numbers]
        equal = (lengths == lengths[:, :1]).all(axis=1)
        share = float(self.weights[equal].sum())
        return CandidateSets(self.numbers[equal], self.weights[equal] / (share or 1.0)), share


@dataclass(frozen=True)
class Pairs:
    """Distinct pairs of texts.

    numbers:    int64 [n, 2], the smaller number first.
    weights:    [n], how likely each is; they sum to 1.
    equal:      [n], whether both texts have equally many words.
    sets:       that they come from, where these have k > 2 texts.
    """

    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]
    equal: NDArray[np.bool_]
    sets: CandidateSets | None = None

    @property
    def candidates(self) -> int:
        """k, of the sets that they come from."""
        return 2 if self.sets is None else self.sets.numbers.shape[1]

    def __len__(self) -> int:
        return len(self.numbers)


def of_trials(trials: Trials, texts: Sequence[str]) -> Pairs:
    """The distinct pairs of candidates of trials, each as likely as it is frequent."""
    slots = list(combinations(trials.candidates.T.astype(np.int64), 2))
    both = np.concatenate([np.stack(slot, axis=1) for slot in slots])
    sets = None
    if len(slots) > 1:
        numbers, counts = np.unique(np.sort(trials.candidates, axis=1), axis=0, return_counts=True)
        sets = CandidateSets(numbers.astype(np.int64), counts / counts.sum())
    return _weighed(both, texts, sets)


def first_trials(trials: Trials, texts: Sequence[str], most: int) -> Trials:
    """As many of the first trials, at least one, as have at most so many distinct pairs of equally many words.

    A pair of texts of different lengths is cheap to compute where length gives it away.
    """
    slots = list(combinations(trials.candidates.T.astype(np.int64), 2))
    both = np.sort(np.stack(slots, axis=1).transpose(2, 1, 0).reshape(-1, 2), axis=1)  # trial by trial
    _, first = np.unique(both, axis=0, return_index=True)
    new = np.sort(first[_equal(both[first], texts)]) // len(slots)  # the trials in which another pair turns up
    count = len(trials.target) if len(new) <= most else max(1, int(new[most]))
    return Trials(trials.candidates[:count], trials.target[:count])


def furthest_pairs(
    embeddings: NDArray[np.float32], texts: Sequence[str], groups: NDArray[np.integer] | None = None
) -> Pairs:
    """Each text with the one most dissimilar to it, of its group where there are groups (`sampling.sample`)."""
    other = furthest(embeddings, groups)
    has = np.flatnonzero(other >= 0)
    return _weighed(np.stack([has, other[has]], axis=1), texts)


def all_of(texts: Sequence[str], groups: NDArray[np.integer] | None = None) -> Pairs:
    """All pairs of texts, of one group where there are groups, as likely as trials at temperature 0 draw them."""
    left, right = np.triu_indices(len(texts), 1)
    numbers, weights = np.stack([left, right], axis=1).astype(np.int64), np.ones(len(left))
    if groups is not None:
        numbers = numbers[groups[left] == groups[right]]
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        weights = 1 / (sizes[group[numbers[:, 0]]] - 1.0)  # the first candidate is uniform over all texts
    return Pairs(numbers, weights / weights.sum(), _equal(numbers, texts))


def _weighed(pairs: NDArray[np.integer], texts: Sequence[str], sets: CandidateSets | None = None) -> Pairs:
    distinct, counts = np.unique(np.sort(pairs, axis=1), axis=0, return_counts=True)
    return Pairs(distinct.astype(np.int64), counts / counts.sum(), _equal(distinct, texts), sets)


def _equal(pairs: NDArray[np.integer], texts: Sequence[str]) -> NDArray[np.bool_]:
    counts = _lengths(texts)
    return np.asarray(counts[pairs[:, 0]] == counts[pairs[:, 1]])


def _lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([len(words(text)) for text in texts])
