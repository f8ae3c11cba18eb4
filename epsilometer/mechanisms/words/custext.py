"""CusText: samples each word from a small set of words (Chen, Mo, Wang, Chen, Chen and Yu, Findings of ACL 2023).

In plain words it replaces each word by one of a small fixed group of words, chosen at random near it.

    P(y | x) ~ exp(epsilon / 2 u(x, y))   for y in the group of x,
    u(x, y) = (d_max - ||x - y||) / (d_max - d_min),   with d_min and d_max over the group.

This is the exponential mechanism with a score in [0, 1], so with sensitivity 1 (section 3.2). The vocabulary is divided
into groups of `size` words: in the order of the file, each word that has no group yet forms a group with the nearest
words that have none. Within a group every word can replace every word, so P(y | x) <= e^epsilon P(y | x'). Between
groups nothing is claimed, since the output reveals the group.

Assumptions: the claim is per word; texts are neighbours if they have the same number of words, and the two words at
each position are in one group; vectors, groups and the order of words are public.

Departures: the reference code (sai4july/CusText 4a3ced8) has three ways to make each word's set of possible outputs, by
its option `mapping_strategy`:

    conservative  the default of the code and of its README: words that have a set are removed, so the sets are the
                  groups above (if too few words are left, words that have a set fill up the last set)
    aggressive    the set of every word is its nearest words
    overlapping   (any other value) the set of a word is its nearest words, with or without a set; those that have no
                  set yet get the same set

The published claim is epsilon for any two words. `as_published: true` makes this claim, so that an audit can refute it.
With the conservative mapping the mechanism is the one above: the claim holds within a group, and fails between any two
words of different groups. The other two mappings need `as_published: true`. In these two mappings sets overlap without
being equal, so an output can exclude inputs, and the claim fails between near words, too.

The reference code also builds the mapping from the private corpus, and leaves words outside the mapping unchanged; here
such a word is first replaced by a fixed word. On vectors of length 1 the reference code ranks and scores by the cosine,
so removed words (those that have a set) rank before words of negative cosine. This module uses only the distance.
CusText+ (`stop_words: kept`) leaves stop-words unchanged, so nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import log_softmax

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism
from epsilometer.text.words import STOP_WORDS

_BATCH = 64  # words whose distances to all others are in memory at a time


@component
class CusText(WordVectorMechanism):
    """The CusText mechanism.

    size:         number of words in a set.
    stop_words:   `kept` to leave stop-words unchanged.
    as_published: True to make the published claim.
    mapping:      the way to make the words' sets, as in the module's list.
    """

    size: Annotated[int, Field(ge=2)] = 20
    stop_words: Literal["replaced", "kept"] = "replaced"
    as_published: bool = False
    mapping: Literal["conservative", "aggressive", "overlapping"] = "conservative"

    @model_validator(mode="after")
    def _only_released(self) -> CusText:
        if self.mapping != "conservative" and not self.as_published:
            raise ValueError(
                f"mapping: {self.mapping} has overlapping sets, for which no claim holds; set as_published: true"
            )
        return self

    @cached_property
    def _sets(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The index of each word's set, [V], and the words of each set, [sets, size], padded with -1."""
        group, sets = np.full(len(self.vectors), -1), list[NDArray[np.int64]]()
        while len(left := np.flatnonzero(group < 0)):
            # Computes distances from many words at once, although some of them get a group before they are reached.
            batch = left[:_BATCH]
            for word, distance in zip(batch, self.vectors.distances(batch), strict=True):
                if group[word] >= 0:
                    continue
                if self.mapping == "conservative":
                    distance[group >= 0] = np.inf
                distance[word] = -1
                last = min(self.size, int(np.isfinite(distance).sum())) - 1
                near = np.flatnonzero(distance <= np.partition(distance, last)[last])
                members = near[np.argsort(distance[near], kind="stable")][: last + 1]
                sharing = members[group[members] < 0] if self.mapping != "aggressive" else word
                group[sharing] = len(sets)
                sets.append(np.pad(members, (0, self.size - len(members)), constant_values=-1))
        return group, np.array(sets, np.int32)

    @cached_property
    def _scores(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The possible outputs of each word, padded with -1, and their scores: [V, size] each."""
        group, sets = self._sets
        outputs = sets[group]
        pairs = np.repeat(np.arange(len(group)), self.size), np.maximum(outputs, 0).ravel()
        distance = np.where(outputs >= 0, self.vectors.between(*pairs).reshape(outputs.shape), np.nan)
        low, high = np.nanmin(distance, axis=1, keepdims=True), np.nanmax(distance, axis=1, keepdims=True)
        return outputs, np.where(outputs >= 0, (high - distance) / np.where(high > low, high - low, 1), -np.inf)

    @cached_property
    def _unchanged(self) -> NDArray[np.bool_]:
        """Bool [V]: True for words that stay unchanged."""
        if self.stop_words == "replaced":
            return np.zeros(len(self.vocabulary), bool)
        return np.isin(self.vocabulary.words, list(STOP_WORDS))

    def _law(self, words: NDArray[np.integer], epsilon: float) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the possible outputs of each word [n, size] and their log-probabilities."""
        outputs, scores = self._scores
        log_p = log_softmax(epsilon / 2 * scores[words], axis=1)
        unchanged = np.flatnonzero(self._unchanged[words])
        log_p[unchanged] = np.where(outputs[words[unchanged]] == words[unchanged, None], 0.0, -np.inf)
        return outputs[words], log_p

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, between words of one group; the group and the number of words are not protected."""
        if self.stop_words == "kept":
            return None
        return self.claim(epsilon, None if self.as_published else "0 or 1 within a group")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the number of differing words; infinite if lengths or groups differ (as published, only lengths)."""
        group, _ = self._sets

        def between(left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.float64]:
            covered = self.as_published | (group[left] == group[right])
            return np.where(covered, left != right, np.inf)

        return self.vocabulary.distance(texts, pairs, between)

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the largest loss minus epsilon within any group, exactly; None for the published claim."""
        if self.as_published or self.stop_words == "kept":
            return None
        _, sets = self._sets
        outputs, log_p = self._law(np.maximum(sets, 0).ravel(), epsilon)
        there, shape = sets >= 0, (*sets.shape, self.size)
        law = np.where(outputs >= 0, log_p, 0.0).reshape(shape)
        loss = np.abs(law[:, :, None] - law[:, None]).max(axis=-1)
        pair = there[:, :, None] & there[:, None] & ~np.eye(self.size, dtype=bool)
        return float(loss[pair].max(initial=-np.inf)) - epsilon

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of the vocabulary."""

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                outputs, log_p = self._law(words, epsilon)
                law = np.full((len(words), len(self.vocabulary)), -np.inf)
                row, place = np.nonzero(outputs >= 0)
                law[row, outputs[row, place]] = log_p[row, place]
                yield law

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities, table=self._release_table)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Each word is sampled by inverse CDF from one uniform; a publication samples exactly."""
        if noise.exact is not None:
            return self.written(texts, sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])[0])
        private = self.vocabulary.encode(texts)
        distinct, row = np.unique(private.values, return_inverse=True)
        outputs, log_p = self._law(distinct, epsilon)
        mass = np.exp(log_p)
        # Puts outputs of probability 0 last in the CDF, so that rounding cannot select them.
        order = np.argsort(mass == 0, axis=1, kind="stable")
        outputs, cdf = (np.take_along_axis(part, order, 1) for part in (outputs, mass))
        possible = (cdf > 0).sum(axis=1)
        cdf = np.cumsum(cdf, axis=1)
        place = (noise.ragged(private.lengths) >= cdf[row]).sum(axis=1)
        return self.written(texts, Ragged(outputs[row, np.minimum(place, possible[row] - 1)], private.offsets))
