"""RANTEXT: replaces a word by a word within a random radius of it (InferDPT, Tong et al., arXiv:2310.12214).

In plain words it replaces each word by another within a randomly chosen distance of it.

Laplace noise has the scale R_i / tau in dimension i, where R_i is the range of that dimension over the vocabulary. The
length r of the noise vector determines the candidates, and the exponential mechanism chooses one of them:

    P(y | x) = E_r[ 1{d(x, y) < r} exp(epsilon / 2 (1 - d(x, y) / r)) / Z_r(x) ],
    tau = epsilon below epsilon 2, else .01658... ln(19.06... epsilon - 38.12...) + 9.311...

The published claim is epsilon per word, for any two words, since the score 1 - d / r is in [0, 1]. This range bounds
the ratio of two weights for one set of candidates, but the set depends on the private word. A word nearer to x than to
x' is a candidate for x, but not for x', at some radii. So the claim fails if r excludes any words. Below epsilon 2 the
radius exceeds all distances of usual vectors, and the claim holds. At epsilon 2 tau jumps to about 9.1, then grows to
at most 10. From epsilon 2 on, about a tenth of the words are candidates.

The corrected form (default) has the same radius, but gives words beyond it the score 0 instead of excluding them:

    P(y | x) = E_r[ exp(epsilon / 2 max(0, 1 - d(x, y) / r)) / Z_r(x) ].

Given r, which does not depend on x, this is an exponential mechanism over the whole vocabulary with a score in [0, 1].
So P(y | x, r) <= e^epsilon P(y | x', r), and the mean over r satisfies the same bound.

The law is computed by integration over r, which has the same distribution for all words (`shared/laplace_norm.py`). The
radii are divided into bins. Weights are interpolated on a grid of distances that contains the edges of the bins. One
table holds the weights of all grid distances and bins, so a law takes two matrix-vector products with the table. Up to
epsilon 40, laws on 2,000 GloVe vectors agree to 0.003 nats with laws from two to four times as many bins. Probabilities
below 1e-300 count as 1e-300.

Assumptions: the claim is per word; texts are neighbours if they have the same number of words; vectors, their ranges
and the vocabulary are public; in the corrected form every word can replace every word.

Departures: both forms replace every word; an out-of-vocabulary word is first replaced by a fixed word
(`shared/vocabulary.py`). The released code (mengtong0110/InferDPT 4adf4af) drops words outside its list of 11,000
words, which changes the number of words. It replaces a token of digits by a uniform number from 1 to 1000, and no other
token by a number. `released_code: true` does the same, and needs `as_published: true`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from epsilometer.core.component import component
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism
from epsilometer.mechanisms.words.shared.laplace_norm import LaplaceNorm
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.text.vectors import one_thread
from epsilometer.text.words import words as words_of

_FITTED = (0.01658160142016071, 19.064721649556482, -38.1294334077209, 9.311083811697406)  # the released fit of tau
_LARGEST_NUMBER = 1000  # the released code replaces digits by numbers from 1 to this
_SCORES = np.concatenate(  # edges of the bins of radii, as normal scores
    [
        np.arange(first, last, step)
        for first, last, step in ((-9, -5, 0.1), (-5, 6, 0.0125), (6, 12, 0.025), (12, 37, 0.1))
    ]
)
_NEAR = 64, 2000  # fewest and most grid distances below the shortest radius
_PER_NAT = 40  # number of these grid distances per nat of difference between their weights
_LEAST = 1e-300  # smallest probability
_TABLES = 4  # number of epsilons whose tables are cached


@component
class RanText(WordVectorMechanism, OneOfGrid):
    """The RANTEXT mechanism.

    as_published: True for the published law, whose candidates depend on the word. released_code: True to also replace
    digits by uniform numbers, and drop out-of-vocabulary words.
    """

    as_published: bool = False
    released_code: bool = False

    @model_validator(mode="after")
    def _only_released(self) -> RanText:
        if self.released_code and not (self.as_published and self.layout == "normalised"):
            raise ValueError(
                "released_code: true drops words and makes the published claim; it needs as_published: true and "
                "layout: normalised"
            )
        return self

    @cached_property
    def output_texts(self) -> Sequence[str]:
        """The possible outputs: the vocabulary; with the released code also the numbers that replace digits."""
        if not self.released_code:
            return self.vocabulary.words
        numbers = [str(number) for number in range(1, _LARGEST_NUMBER + 1)]
        return [*self.vocabulary.words, *(number for number in numbers if number not in self.vocabulary.index)]

    @property
    def inputs(self) -> Sequence[str]:
        """Test texts of one word: the possible outputs."""
        return self.output_texts

    @cached_property
    def _outputs(self) -> Vocabulary:
        return Vocabulary(self.output_texts)

    @cached_property
    def _radius(self) -> LaplaceNorm:
        """The distribution of tau times the radius."""
        return LaplaceNorm(np.ptp(self.vectors.exact, axis=0))

    @cached_property
    def _tables(self) -> dict[float, _Table]:
        return {}

    def _table(self, epsilon: float) -> _Table:
        if epsilon not in self._tables:
            while len(self._tables) >= _TABLES:
                self._tables.pop(next(iter(self._tables)))
            farthest = 2 * float(np.linalg.norm(self.vectors.exact - self.vectors.exact.mean(axis=0), axis=1).max())
            self._tables[epsilon] = _Table.of(self._radius, epsilon, farthest, as_published=self.as_published)
        return self._tables[epsilon]

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, between any two words; the number of words is not protected."""
        return self.claim(epsilon)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the number of differing words; infinite for texts of different lengths."""
        if not self.released_code:
            return self.vocabulary.distance(texts, pairs, np.not_equal)
        every = Vocabulary(list(dict.fromkeys(word for text in texts for word in words_of(text))))
        return every.distance(texts, pairs, np.not_equal)

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the largest ln-ratio of two words' normalisers at one radius, minus epsilon / 2; None as published.

        The log-weights at one radius differ by at most epsilon / 2, and the claim is epsilon.
        """
        if self.as_published:
            return None
        table = self._table(epsilon)
        low, high = np.full(len(table.mass), np.inf), np.full(len(table.mass), -np.inf)
        for _, log_total in self._totals(np.arange(len(self.vectors)), table):
            np.minimum(low, log_total, out=low)
            np.maximum(high, log_total, out=high)
        return float((high - low).max()) - epsilon / 2

    def _totals(self, words: NDArray[np.integer], table: _Table) -> Iterator[tuple[_Split, NDArray[np.float64]]]:
        """Yield for each word its distances on the grid, and ln Z at all radii."""
        for distances in self.vectors.distances(words):
            split = table.split(distances)
            yield split, np.log(split.counts @ table.weights)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, one row per word of the vocabulary; with the released code, one more row for digits."""
        size = len(self.vocabulary)

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            word = np.flatnonzero(rows < size)
            for epsilon in epsilons:
                law = np.full((len(rows), len(self.output_texts)), -np.inf)
                law[:, :size][word] = self._word_laws(rows[word], epsilon)
                law[rows == size] = self._number_law if self.released_code else 0
                yield law

        return Laws(self._encode(texts), len(self.output_texts), log_probabilities, table=self._release_table)

    def _word_laws(self, words: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the log-probabilities [n, V] of the vocabulary for words [n]."""
        table, laws = self._table(epsilon), np.empty((len(words), len(self.vectors)))
        with one_thread():  # one matrix-vector product per word, so that bits do not depend on other words
            for law, (split, log_total) in zip(laws, self._totals(words, table), strict=True):
                on_grid = table.weights @ (table.mass / np.exp(log_total))
                law[:] = split.logarithms(on_grid) if self.as_published else np.log(split.values(on_grid))
        return laws

    @cached_property
    def _number_law(self) -> NDArray[np.float64]:
        numbers = {str(number) for number in range(1, _LARGEST_NUMBER + 1)}
        written = np.array([text in numbers for text in self.output_texts])
        return np.where(written, -math.log(_LARGEST_NUMBER), -np.inf)

    def _encode(self, texts: Sequence[str]) -> Ragged:
        """Return the law rows of each text's words."""
        if not self.released_code:
            return self.vocabulary.encode(texts)
        index, size = self.vocabulary.index, len(self.vocabulary)
        rows = [
            [size if word.isnumeric() else index[word] for word in words_of(text) if word.isnumeric() or word in index]
            for text in texts
        ]
        return Ragged.from_lengths(np.array(list(chain(*rows)), np.int64), np.array(list(map(len, rows)), np.int64))

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return the sampled words joined by single spaces, or in the source's layout."""
        return self._outputs.decode(units) if self.released_code else super().write(texts, units)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Words are sampled by inverse CDF, in a publication exactly."""
        outputs = sample(self.laws(texts), np.arange(len(texts)), epsilons, noises)
        return [self.written(texts, units) for units in outputs]


class _Split(NamedTuple):
    """Distances [V] on the grid, for interpolation.

    lower:  [V], index of the grid point below each distance.
    part:   [V], fraction of the way from there to the next grid point.
    counts: [points], number of words at each grid point; each word is divided between its two points.
    """

    lower: NDArray[np.integer]
    part: NDArray[np.float64]
    counts: NDArray[np.float64]

    def values(self, on_grid: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities [V], interpolated linearly between grid points, which preserves their sum."""
        return np.maximum((1 - self.part) * on_grid[self.lower] + self.part * on_grid[self.lower + 1], _LEAST)

    def logarithms(self, on_grid: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log-probabilities [V], interpolated as logarithms, which is more accurate at steep points."""
        log_p = np.log(np.maximum(on_grid, _LEAST))
        law = (1 - self.part) * log_p[self.lower] + self.part * log_p[self.lower + 1]
        return law - np.log(np.exp(law).sum())


class _Table(NamedTuple):
    """The weights of all words at one epsilon.

    grid: [points], distances; mass: [bins], probabilities of the bins of radii; weights: [points, bins].
    """

    grid: NDArray[np.float64]
    mass: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, radius: LaplaceNorm, epsilon: float, farthest: float, as_published: bool) -> _Table:
        """Return the table at an epsilon. farthest: an upper bound on all distances."""
        noise = tau(epsilon)
        scaled = radius.at(_SCORES)
        edges, mass = scaled / noise, radius.masses(scaled)
        middle = np.concatenate([edges[:1], np.sqrt(edges[1:] * edges[:-1]), edges[-1:]])
        shortest = min(edges[0], farthest)
        points = int(np.clip(_PER_NAT * epsilon / 2 * shortest / edges[0], *_NEAR))
        beyond = edges[1 : np.searchsorted(edges, farthest) + 1] if shortest < farthest else edges[:0]
        grid = np.concatenate([np.linspace(0, shortest, points), beyond])
        part = np.minimum(grid[:, None] / middle, 1)
        weights = np.exp(-epsilon / 2 * part)
        if as_published:
            weights[:, 1:] *= grid[:, None] <= edges
            below = radius.log_cdf(noise * np.minimum(grid, edges[0])) - radius.log_cdf(scaled[:1])
            weights[:, 0] *= -np.expm1(below)  # share of the first bin's radii that exceed the distance
        return cls(grid, mass, weights)

    def split(self, distances: NDArray[np.float64]) -> _Split:
        """Return distances [V] on the grid. Distances beyond the grid are clipped to its end."""
        inside = np.minimum(distances, self.grid[-1])
        lower = np.minimum(np.searchsorted(self.grid, inside, side="right") - 1, len(self.grid) - 2)
        part = (inside - self.grid[lower]) / (self.grid[lower + 1] - self.grid[lower])
        counts = np.zeros(len(self.grid))
        counts += np.bincount(lower, weights=1 - part, minlength=len(counts))
        counts += np.bincount(lower + 1, weights=part, minlength=len(counts))
        return _Split(lower, part, counts)


def tau(epsilon: float) -> float:
    """Return tau, the divisor of the dimensions' ranges. From epsilon 2 on it is a fitted function."""
    factor, slope, start, rest = _FITTED
    return epsilon if epsilon < 2 else factor * math.log(slope * epsilon + start) + rest
