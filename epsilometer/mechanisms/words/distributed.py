"""One budget for a whole text, divided among its words by scores of the words (Meisenbacher et al., CODASPY 2025).

In plain words it replaces each word by another, and gives the words that matter most to the text the smallest budgets.

    epsilon_i = epsilon w_i(x),   w_i(x) ~ 1 / s_i(x),   sum over i of w_i(x) = 1,

where s_i(x) is the mean of several scores of word i in the text x, each normalised to sum to one over the text ("Spend
Your Budget Wisely", arXiv:2503.22379). Two scores are |1 - cos(t, t - v_i)| and |cos(t, v_i)|, where v_i is the word's
vector and t the sum of the text's vectors. The setting `scores` adds a third score, a public number for each word. The
paper has such numbers for parts of speech and for information content.

**As published**, every word goes through a word mechanism at its epsilon_i, and the budgets are added up. If the word
mechanism claims epsilon_i d(x_i, x'_i), the sum accounts for changed words. But the shares w_i depend on the private
text, too: if one word changes, the budgets and laws of all other words change. The sum does not account for this.
`as_published: true` uses SanText's law P(y | x_i) ~ exp(-epsilon_i / 2 ||x_i - y||). The claim stated here is generous,
since it takes the larger of the two texts' shares at each position:

    sum over i of epsilon max(w_i(x), w_i(x')) ||x_i - x'_i||.

A test and a script give two texts of two words whose loss exceeds even this claim. The texts differ in one word. The
two differing words have near vectors but are different parts of speech, so their scores differ. This also changes the
budget of the word that both texts share. The paper's own mechanisms are 1-Diffractor, whose claim also grows with
distances, and DP-BART. Only the paper's abstract was at hand, not its theorem.

**Corrected** (default): the law is P(y | x, i) ~ exp(epsilon_i / 2 max(0, cos(x_i, y))). The weight of every word y is
in [1, e^(epsilon_i / 2)], and the normaliser is in [V, V e^(epsilon_i / 2)] for V words. So for any words and any
shares of two texts,

    P(y | x, i) <= e^((epsilon_i + epsilon'_i) / 2) P(y | x', i),   and over the text e^((epsilon + epsilon) / 2),

since the shares of each text sum to one. The claim is therefore epsilon between any two texts with the same number of
words, although the shares depend on the text.

Assumptions: epsilon is for a whole text; texts are neighbours if they have the same number of words, which is not
protected; vectors and vocabulary are public; every word can replace every word.

Departures from the reference code (sjmeis/EpsilonDistributor 82f6096): in that code a network computes the vectors of
texts. The code's score of named entities has no effect: it is used only if the number 1 is in a list of pairs (word,
score), which is never true. The code gives punctuation no budget; here punctuation is not part of a text's words. An
out-of-vocabulary word is first replaced by a fixed word (`shared/vocabulary.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee
from epsilometer.core.laws import Laws, log_softmax, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism

_LEAST = 1e-6  # smallest score, so that no word gets the whole budget
_OTHER = 0.1  # the code's score of a part of speech that it does not list


@component
class Distributed(WordVectorMechanism, OneOfGrid):
    """One budget for a text, divided among its words.

    normalise:    always true, since scores compare directions.
    scores:       a public number for some words; all other words have 0.1. None: only the two scores by cosines.
    as_published: True for SanText's law at each word's share of epsilon, with the claim that the module states.
    """

    normalise: Literal[True] = True
    scores: Mapping[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    as_published: bool = False

    @cached_property
    def _public(self) -> NDArray[np.float64]:
        """The public number of each word, [V]."""
        assert self.scores is not None
        return np.array([self.scores.get(word, _OTHER) for word in self.vocabulary.words])

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Return the claim: epsilon for a whole text; as published, epsilon times a sum of distances.

        The number of words is not protected.
        """
        claim = self.claim(epsilon, "L2 distance by larger share" if self.as_published else None)
        return None if claim is None else replace(claim, granularity=Granularity.DOCUMENT)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the distance of each pair of texts; infinite for different numbers of words.

        The distance is 1 if any word differs, else 0. As published, it is the sum over positions of the two words'
        distance times the larger of their shares.
        """
        if not self.as_published:
            words = self.vocabulary.distance(texts, pairs, np.not_equal)
            return np.where(np.isfinite(words), np.minimum(words, 1), np.inf)
        units = self.vocabulary.encode(texts)
        shares, apart = np.split(self.shares(units), units.offsets[1:-1]), np.full(len(pairs), np.inf)
        for place, (left, right) in enumerate(pairs):
            if len(units.row(left)) == len(units.row(right)):
                larger = np.maximum(shares[left], shares[right])
                apart[place] = larger @ self.vectors.between(units.row(left), units.row(right))
        return apart

    def shares(self, units: Ragged) -> NDArray[np.float64]:
        """Return the share of each word in its text's epsilon; the shares of a text sum to one."""
        at, count = units.row_numbers, len(units)
        words = self.vectors.exact[units.values]
        total = np.zeros((count, words.shape[1]))
        np.add.at(total, at, words)
        whole, rest = total[at], total[at] - words
        each = [np.abs(1 - _cosine(whole, rest)), np.abs(_cosine(whole, words))]
        each += [] if self.scores is None else [self._public[units.values]]
        scores = np.zeros(len(at))
        for score in each:
            scores += score / np.maximum(np.bincount(at, score, count), _LEAST)[at] / len(each)
        inverse = 1 / np.maximum(scores, _LEAST)
        return inverse / np.bincount(at, inverse, count)[at]

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per distinct pair of a word and its share."""
        units = self.vocabulary.encode(texts)
        pairs, rows = np.unique(np.column_stack([units.values, self.shares(units)]), axis=0, return_inverse=True)
        words, shares = pairs[:, 0].astype(np.int64), pairs[:, 1:]

        def log_probabilities(wanted: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            distances = self.vectors.distances(words[wanted])
            score = -distances if self.as_published else np.maximum(0, 1 - distances**2 / 2)
            for epsilon in epsilons:
                yield log_softmax(epsilon / 2 * shares[wanted] * score)

        return Laws(Ragged(rows.reshape(-1), units.offsets), len(self.vocabulary), log_probabilities)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Words are sampled by inverse CDF; a publication samples exactly."""
        distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        source = np.array([distinct[text] for text in texts], np.int64)
        outputs = sample(self.laws(list(distinct)), source, epsilons, noises)
        return [self.written(texts, units) for units in outputs]


def _cosine(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of left[i] and right[i], [n]; 0 if one of the two rows is zero."""
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.einsum("nd,nd->n", left, right) / np.where(lengths > 0, lengths, np.inf)
