"""Cape: samples words by a score of context and distance, in buckets of similar scores (Wu et al., ICML 2025).

In plain words it replaces each word by another, chosen at random among words that fit its place and its meaning.

The score of output y for word x is

    u(x, y) = (clip(L_y, low, high) - low)^(1/2) exp(-d(x, y)),   Delta = (high - low)^(1/2),

where L are the logits of a masked language model at the word, and d is the distance of the word vectors, scaled to
[0, 1] for each x. As published, the range of u for x is divided into 50 buckets of equal width, and

    P(b | x) ~ exp(epsilon mean_b(u) / (2 Delta)) over the non-empty buckets;   P(y | x, b) = 1 / |b|.

The paper claims epsilon + epsilon' with epsilon' = ln max |b_i| / |b_j|. A claim must not depend on the text. The
largest epsilon' of any text is ln(V - 1) for V words, so the published form claims epsilon + ln(V - 1) here. Both
claims are false: for one x all 50 buckets may contain words, and for another x only two. So the two normalisers may
differ by another factor of 25. A test constructs such scores, and at epsilon 0.01 two words of the embedded model
exceed the claim. The valid bound is epsilon + ln 50 + ln V.

The corrected form (default) is the exponential mechanism on u without buckets. u is in [0, Delta], so the loss of
P(y | x) ~ exp(epsilon u / (2 Delta)) is at most epsilon between any two words in any two contexts.

Assumptions: the claim is per word. Every word's law depends on the whole private text, so for texts of n words the
claim is n epsilon, as in `dp_mlm`. There is no claim between texts of different lengths. Vocabulary, vectors and clip
are public.

Departures: no code of the authors is known. The paper does not define the root of negative logits; here logits are
clipped to the model's public range, and the lower bound is subtracted. As in DP-MLM, the model reads the text, followed
by the text with the word masked (`models/masked_lm.py`). Outputs are the whole words among the model's pieces. The
paper lets stop-words and marks pass unchanged; here every word is replaced, and an out-of-vocabulary word has the
distances of a fixed word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, in_cache, log_softmax, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.shared.masked import MaskMechanism, word_rows
from epsilometer.models.locate import locate
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words, write

_SCORES = 1 << 27  # cached scores: 1 GiB


@component
class Cape(MaskMechanism, OneOfGrid):
    """Cape. resource, clip, precision: settings of the masked language model (`MaskMechanism`).

    as_published: True to sample a bucket first, and make the paper's claim; buckets: number of buckets.
    """

    as_published: bool = False
    buckets: Annotated[int, Field(ge=1)] = 50

    @cached_property
    def _vectors(self) -> WordVectors:
        """The vectors of the whole words among the model's pieces."""
        pieces = set(self._model.outputs)
        every = WordVectors.from_transformer(locate(self.resource))
        numbers = [number for number, word in enumerate(every.words) if word in pieces]
        return WordVectors([every.words[number] for number in numbers], every.vectors[numbers])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self._vectors.words)}

    @cached_property
    def _pieces(self) -> NDArray[np.int64]:
        """The index of each word among the model's outputs."""
        first = {piece: number for number, piece in reversed(list(enumerate(self._model.outputs)))}
        return np.array([first[word] for word in self._vectors.words], np.int64)

    @property
    def inputs(self) -> Sequence[str]:
        """Test texts of one word: the whole words among the model's pieces."""
        return self._vectors.words

    @property
    def output_texts(self) -> Sequence[str]:
        """The possible outputs: the whole words among the model's pieces."""
        return self._vectors.words

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for each word; as published, epsilon + ln(V - 1) for V words."""
        claim = Guarantee(epsilon, Granularity.TOKEN, Neighbours.SAME_LENGTH)
        return replace(claim, epsilon=epsilon + math.log(len(self._vectors) - 1)) if self.as_published else claim

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of each text."""
        split = [words(text) for text in texts]
        rows, places = word_rows(split)

        def log_probabilities(wanted: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            utility, largest = self._cached(split, places[wanted])
            for epsilon in epsilons:
                scaled = epsilon / 2 / largest
                if self.as_published:
                    yield np.array([bucket_law(row, scaled, self.buckets) for row in utility]).reshape(utility.shape)
                else:
                    yield log_softmax(utility * scaled)

        def draw(
            wanted: NDArray[np.integer],
            at: NDArray[np.integer],
            epsilons: Sequence[float],
            uniforms: Sequence[NDArray[np.float64]],
        ) -> list[NDArray[np.int64]]:
            utility, largest = self._utility(split, places[wanted])
            buckets = self.buckets if self.as_published else None
            return [
                drawn_from(utility, epsilon / 2 / largest, at, uniform, buckets=buckets)
                for epsilon, uniform in zip(epsilons, uniforms, strict=True)
            ]

        return Laws(rows, len(self._vectors), log_probabilities, draw=draw)

    def _cached(self, split: Sequence[Sequence[str]], places: NDArray[np.integer]) -> tuple[NDArray[np.float64], float]:
        """Return scores and Delta as `_utility` does.

        Up to 1 GiB of scores are cached, since a search for an epsilon needs the same scores many times.
        """
        keys = [(tuple(split[text]), int(word)) for text, word in places]
        new = [i for i, key in enumerate(keys) if key not in self._scores]
        computed, largest = self._utility(split, places[new])
        room = max(0, _SCORES // len(self._vectors) - len(self._scores))
        self._scores.update((keys[i], scores) for i, scores in zip(new, computed[:room].copy(), strict=False))
        if len(new) == len(keys):
            return computed, largest
        utility = np.empty((len(keys), len(self._vectors)))
        utility[new] = computed
        for i in set(range(len(keys))) - set(new):
            utility[i] = self._scores[keys[i]]
        return utility, largest

    @cached_property
    def _scores(self) -> dict[tuple[tuple[str, ...], int], NDArray[np.float64]]:
        return {}

    def _utility(
        self, split: Sequence[Sequence[str]], places: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], float]:
        """Return the scores u of all words at these places, [n, V], and Delta."""
        low, high = self._clip
        logits = self._model.mask_logits(split, places)
        unknown = self._index.get("unknown", 0)
        private = np.array([self._index.get(split[text][word], unknown) for text, word in places], np.int64)
        utility = self._vectors.distances(private)
        for rows in in_cache(utility):
            some = utility[rows]
            some /= np.minimum(-some.max(axis=1, keepdims=True), -np.finfo(float).tiny)  # to [-1, 0]
            np.exp(some, out=some)
            clipped = logits[rows][:, self._pieces].astype(np.float64).clip(low, high)
            some *= np.sqrt(clipped - low)
        return utility, math.sqrt(high - low)

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return readings, as in `HasReadings`: the state at the mask of each word, in the order of `laws`."""
        return self._model.states(*_masks(texts))

    def recall(self, texts: Sequence[str], readings: NDArray[np.float32]) -> None:
        """Use cached readings, as in `HasReadings`."""
        self._model.recall(*_masks(texts), readings)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Each word of each distinct text takes one forward pass."""
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts])
        outputs = sample(self.laws(list(distinct)), source, epsilons, noises)
        return [Rewrites(self.write(texts, units), units) for units in outputs]

    @property
    def text_is_units(self) -> bool:
        """True, since the sampled words determine the text (`Writes`)."""
        return True

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return the sampled words joined by single spaces."""
        return [write([self._vectors.words[unit] for unit in units.row(i)]) for i in range(len(texts))]


def _masks(texts: Sequence[str]) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Return the words of each text, and the indices (text, word) of each word, [rows, 2]."""
    split = [words(text) for text in texts]
    return split, word_rows(split)[1]


def drawn_from(
    utility: NDArray[np.float64],
    scale: float,
    rows: NDArray[np.integer],
    uniforms: NDArray[np.float64],
    *,
    buckets: int | None,
) -> NDArray[np.int64]:
    """Draw a word for each of n uniforms, by inverse CDF of the law of the uniform's row.

    utility: the scores [m, V] of m rows; rows: the row of each uniform, ascending; buckets: None for the exponential
    mechanism.
    """
    words, starts = np.empty(len(rows), np.int64), np.searchsorted(rows, np.arange(len(utility) + 1))
    for row, scores in enumerate(utility):
        law = scores * scale if buckets is None else bucket_law(scores, scale, buckets)
        law -= law.max()
        cdf = np.cumsum(np.exp(law, out=law), out=law)
        own = slice(starts[row], starts[row + 1])
        words[own] = np.searchsorted(cdf, uniforms[own] * cdf[-1], side="right")
    return np.minimum(words, utility.shape[1] - 1)


def bucket_law(utility: NDArray[np.float64], scale: float, buckets: int) -> NDArray[np.float64]:
    """Return the log-probabilities of words with scores `utility` [V], in the published form with buckets.

    A bucket has a probability proportional to exp(scale * mean score); words in it are equally likely.
    """
    low, high = utility.min(), utility.max()
    place = np.minimum((utility - low) / ((high - low) or 1) * buckets, buckets - 1).astype(np.int64)
    sizes = np.bincount(place, minlength=buckets)
    used = np.flatnonzero(sizes)
    means = np.bincount(place, weights=utility, minlength=buckets)[used] / sizes[used]
    law = np.full(buckets, -np.inf)
    law[used] = log_softmax(scale * means[None])[0] - np.log(sizes[used])
    return law[place]
