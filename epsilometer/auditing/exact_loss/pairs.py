"""The pairs of texts that are compared, and the probability that an audit's trials draw each pair.

The compared pairs are the pairs in an audit's candidate sets (`auditing/trials/sampling.py`). At a temperature of
-10,000 or less the second candidate is the text least similar to the first, so all pairs can be enumerated without
sampling. (Trials may also draw a text whose cosine with the first is larger by up to about 1e-4.) At temperature 0 all
pairs of texts are equally likely. At other temperatures only the distinct pairs of drawn trials are compared, and the
order of the trials is stored: an interval over all pairs requires independent trials (`rows.over_all`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.trials.sampling import Trials, furthest
from epsilometer.text.words import words

FURTHEST = -10_000  # at this temperature and below, the second candidate is assumed to be the least similar text


@dataclass(frozen=True)
class CandidateSets:
    """Distinct sets of k texts.

    numbers: int64 [n, k], indices of texts. weights: [n], the probability of each set; they sum to 1.
    trials:  int64 [trials], the index of each trial's set, in the order of the trials.
    """

    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]
    trials: NDArray[np.int64]

    def of_equal_length(self, texts: Sequence[str]) -> tuple[CandidateSets, float]:
        """Return the sets whose texts have equally many words (their weights sum to 1), and their total probability."""
        lengths = _lengths(texts)[self.numbers]
        equal = (lengths == lengths[:, :1]).all(axis=1)
        share = float(self.weights[equal].sum())
        trials = (np.cumsum(equal) - 1)[self.trials[equal[self.trials]]]
        return CandidateSets(self.numbers[equal], self.weights[equal] / (share or 1.0), trials), share


@dataclass(frozen=True)
class Pairs:
    """Distinct pairs of texts.

    numbers:    int64 [n, 2], indices of texts, the smaller index first.
    weights:    [n], the probability of each pair; they sum to 1.
    equal:      [n], True if both texts have equally many words.
    sets:       the candidate sets that the pairs come from, if the sets have k > 2 texts.
    trials:     int64 [trials], the index of each trial's pair, in the order of the trials; None for sets of k > 2
                texts, and if `numbers` has all pairs that trials can draw.
    """

    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]
    equal: NDArray[np.bool_]
    sets: CandidateSets | None = None
    trials: NDArray[np.int64] | None = None

    @property
    def candidates(self) -> int:
        """k, the size of the sets that the pairs come from."""
        return 2 if self.sets is None else self.sets.numbers.shape[1]

    def __len__(self) -> int:
        return len(self.numbers)

    def trials_among(self, places: NDArray[np.integer]) -> NDArray[np.int64] | None:
        """Return, for each trial whose pair is in `places` (ascending), the pair's position; None without trials."""
        if self.trials is None:
            return None
        return np.searchsorted(places, self.trials[np.isin(self.trials, places)])

    def of_equal_length(self) -> Pairs:
        """Return the pairs whose texts have equally many words, with weights that sum to 1."""
        places = np.flatnonzero(self.equal)
        weights = self.weights[places]
        equal = np.ones(len(places), bool)
        trials = self.trials_among(places)
        return Pairs(self.numbers[places], weights / weights.sum(), equal, sets=self.sets, trials=trials)


def of_trials(trials: Trials, texts: Sequence[str]) -> Pairs:
    """Return the distinct pairs of candidates of trials, weighted by their frequency."""
    slots = list(combinations(trials.candidates.T.astype(np.int64), 2))
    both = np.concatenate([np.stack(slot, axis=1) for slot in slots])
    pairs = weighed(both, texts)
    if len(slots) == 1:
        return pairs
    numbers, places, counts = np.unique(
        np.sort(trials.candidates, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    sets = CandidateSets(numbers.astype(np.int64), counts / counts.sum(), places.ravel())
    return replace(pairs, sets=sets, trials=None)


def of_audit(trials: Trials, texts: Sequence[str], most: int, pairwise: bool) -> Pairs:
    """Return the pairs of an audit's first trials (`first_trials`). Sets of more than two texts come from all trials.

    pairwise: True if each pair's loss is computed separately. Otherwise the cost depends only on the number of draws,
    so the pairs come from all trials.
    """
    every = of_trials(trials, texts)
    return replace(of_trials(first_trials(trials, texts, most), texts), sets=every.sets) if pairwise else every


def first_trials(trials: Trials, texts: Sequence[str], most: int) -> Trials:
    """Return the longest run of first trials with at most `most` distinct pairs of equal length, at least one trial.

    Length is in words. Pairs of unequal length do not count, because they are cheap if length distinguishes the texts.
    """
    slots = list(combinations(trials.candidates.T.astype(np.int64), 2))
    both = np.sort(np.stack(slots, axis=1).transpose(2, 1, 0).reshape(-1, 2), axis=1)  # ordered by trial
    _, first = np.unique(both, axis=0, return_index=True)
    new = np.sort(first[_equal(both[first], texts)]) // len(slots)  # the trials in which a new pair appears
    count = len(trials.target) if len(new) <= most else max(1, int(new[most]))
    return Trials(trials.candidates[:count], trials.target[:count])


def furthest_pairs(
    embeddings: NDArray[np.float32], texts: Sequence[str], groups: NDArray[np.integer] | None = None
) -> Pairs:
    """Return each text paired with the text least similar to it, within groups if there are any (`sampling.sample`)."""
    other = furthest(embeddings, groups)
    has = np.flatnonzero(other >= 0)
    return replace(weighed(np.stack([has, other[has]], axis=1), texts), trials=None)


def all_of(texts: Sequence[str], groups: NDArray[np.integer] | None = None) -> Pairs:
    """Return all pairs of texts, within a group if there are groups, with their probabilities at temperature 0."""
    left, right = np.triu_indices(len(texts), 1)
    numbers, weights = np.stack([left, right], axis=1).astype(np.int64), np.ones(len(left))
    if groups is not None:
        numbers = numbers[groups[left] == groups[right]]
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        weights = 1 / (sizes[group[numbers[:, 0]]] - 1.0)  # the first candidate is uniform over all texts
    return Pairs(numbers, weights / weights.sum(), _equal(numbers, texts))


def count_pairs(texts: Sequence[str]) -> tuple[int, int]:
    """Return the number of pairs of texts, and of pairs with equally many words."""
    _, counts = np.unique(_lengths(texts), return_counts=True)
    return math.comb(len(texts), 2), sum(math.comb(count, 2) for count in counts.tolist())


def weighed(pairs: NDArray[np.integer], texts: Sequence[str]) -> Pairs:
    """Return the distinct pairs among drawn pairs [n, 2], weighted by their frequency."""
    distinct, places, counts = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True, return_counts=True)
    equal = _equal(distinct, texts)
    return Pairs(distinct.astype(np.int64), counts / counts.sum(), equal, trials=places.ravel())


def _equal(pairs: NDArray[np.integer], texts: Sequence[str]) -> NDArray[np.bool_]:
    counts = _lengths(texts)
    return np.asarray(counts[pairs[:, 0]] == counts[pairs[:, 1]])


def _lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([len(words(text)) for text in texts])
