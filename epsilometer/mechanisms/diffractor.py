"""1-Diffractor: words moved along one-dimensional lists (Meisenbacher, Chevli and Matthes, IWSPA 2024).

A list lays the vocabulary out so that neighbours are near in meaning (`epsilometer.language.lists`). For each word one
list is drawn uniformly, and the word's place p in it is moved by one of two noises:

    geometric   P(k) = (1 - a) / (1 + a) a^|k|,  a = e^-epsilon; beyond an end of the list, the end   (eqs. 3 to 5)
    tem         P(q | p) ~ exp(-epsilon / 2 min(|q - p|, gamma))                                      (section 4.1.3)

Every list proposing a candidate and one candidate being drawn, as in the paper, is the same law at more work. On one
list both noises give P(y | x) <= e^(epsilon |p - p'|) P(y | x'), and the mixture over lists the same with the largest
distance over lists, d_max (eq. 6). With tem, whose utility is cut off at gamma, so is the distance: two words lose at
most epsilon * gamma.

Assumptions: epsilon belongs to a word; texts are neighbours if they have equally many words; all lists hold one and the
same public vocabulary, and every word of it can come out for every word.

Departures. Released code (sjmeis/Diffractor 338d305, c56f560) lets stop-words, numbers and words outside the lists
through unchanged, and takes candidates only from the lists that hold the word, so that an output can rule an input out;
here a word outside the vocabulary becomes a fixed word first (`epsilometer.language.vocabulary`). The paper says that
gamma depends on epsilon, its code fixes 5, and so does the default here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import log_softmax

from epsilometer.component import component
from epsilometer.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.language.lists import WordLists
from epsilometer.language.vocabulary import Vocabulary
from epsilometer.laws import Laws
from epsilometer.mechanism import Rewrites
from epsilometer.ragged import Ragged
from epsilometer.randomness import Noise


class Geometric(NamedTuple):
    """Two-sided geometric noise on the places 0 ... size - 1, stopped at the ends."""

    size: int

    def draw(self, places: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """[n] noisy places, by the inverse of P(K <= -k) = P(K >= k) = a^k / (1 + a), k > 0."""
        a = math.exp(-epsilon)
        down = uniforms * (1 + a) < a
        steps = -np.log(np.where(down, uniforms, 1 - uniforms) * (1 + a)) / epsilon
        moved = places + np.where(down, -np.floor(steps), np.maximum(np.ceil(steps) - 1, 0))
        return np.clip(moved, 0, self.size - 1).astype(np.int64)

    def log_law(self, places: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """[n, size]: the law of the noisy place."""
        log_p = -epsilon * np.abs(np.arange(self.size) - places[:, None].astype(np.float64))
        log_p[:, 1:-1] += math.log(math.tanh(epsilon / 2))  # (1 - a) / (1 + a)
        log_p[:, [0, -1]] -= math.log1p(math.exp(-epsilon))
        return log_p


class Truncated(NamedTuple):
    """The exponential mechanism on the distance of places cut off at gamma, on the places 0 ... size - 1."""

    size: int
    gamma: float

    def draw(self, places: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """[n] noisy places: the place itself, those below it, above it, and all beyond gamma, one after the other."""
        half, reach = epsilon / 2, max(0, math.ceil(self.gamma) - 1)
        below, above = np.minimum(places, reach), np.minimum(self.size - 1 - places, reach)
        beyond = self.size - 1 - below - above
        # Weights: 1, twice a sum of e^(-k epsilon / 2) over k = 1 ... n, and one for all the rest.
        down, up = (np.expm1(-half * n) / np.expm1(-half) * math.exp(-half) for n in (below, above))
        rest = beyond * math.exp(-half * self.gamma)
        at = uniforms * (1 + down + up + rest) - 1

        def share(part: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.clip(part, 0, weight) / np.maximum(weight, np.finfo(np.float64).tiny)

        def steps(part: NDArray[np.float64], n: NDArray[np.integer]) -> NDArray[np.float64]:
            return np.clip(np.ceil(-np.log1p(part * np.expm1(-half * n)) / half), 1, n)

        outside = np.minimum(np.floor(share(at - down - up, rest) * beyond), beyond - 1)
        outside += np.where(outside < places - below, 0, below + above + 1)
        moved = np.select(
            [at < 0, at < down, at < down + up],
            [places, places - steps(share(at, down), below), places + steps(share(at - down, up), above)],
            outside,
        )
        return np.clip(moved, 0, self.size - 1).astype(np.int64)

    def log_law(self, places: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """[n, size]: the law of the noisy place."""
        distance = np.abs(np.arange(self.size) - places[:, None].astype(np.float64))
        return log_softmax(-epsilon / 2 * np.minimum(distance, self.gamma), axis=1)


@component
class Diffractor:
    """resource: an archive of word lists; gamma: the distance in a list from which on tem treats all words alike."""

    embedded: ClassVar[str] = "lists.npz"

    resource: Path
    noise: Literal["geometric", "tem"] = "geometric"
    gamma: Annotated[float, Field(ge=0)] = 5

    @cached_property
    def lists(self) -> WordLists:
        """The word lists."""
        return WordLists.load(self.resource)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Inputs and outputs."""
        return Vocabulary(self.lists.words)

    @cached_property
    def _moves(self) -> Geometric | Truncated:
        size = len(self.lists.words)
        return Geometric(size) if self.noise == "geometric" else Truncated(size, self.gamma)

    def guarantee(self, epsilon: float) -> Guarantee:
        """Epsilon a word, times the distance of the words; the number of words is not protected."""
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, metric="largest list distance")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Sum over positions of d_max, with tem at most gamma each; infinite for texts of unlike numbers of words."""
        place, largest = self.lists.place, self.gamma if self.noise == "tem" else math.inf
        return self.vocabulary.distance(
            texts, pairs, lambda left, right: np.minimum(np.abs(place[:, left] - place[:, right]).max(axis=0), largest)
        )

    def laws(self, texts: Sequence[str]) -> Laws:
        """A row for each word of the vocabulary."""
        place = self.lists.place

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                log_p = np.full((len(words), len(self.vocabulary)), -np.inf)
                for each in place:
                    np.logaddexp(log_p, self._moves.log_law(each[words], epsilon)[:, each], out=log_p)
                yield log_p - math.log(len(place))

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Two uniforms a word, for the list and the move, both inverted in closed form."""
        lists, private = self.lists, self.vocabulary.encode(texts)
        uniforms = noise.ragged(private.lengths, 2)
        which = np.minimum((uniforms[:, 0] * len(lists.order)).astype(np.int64), len(lists.order) - 1)
        moved = self._moves.draw(lists.place[which, private.values], epsilon, uniforms[:, 1])
        units = Ragged(lists.order[which, moved], private.offsets)
        return Rewrites(self.vocabulary.decode(units), units)
