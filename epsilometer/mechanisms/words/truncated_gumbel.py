"""The truncated Gumbel mechanism on words (Xu, Feyisetan, Aggarwal, Xu and Teissier, arXiv:2012.02851, algorithm 1).

In plain words it replaces each word by one of the few words nearest to it, chosen at random.

The candidates are the k of V words that are nearest to the private word x, including x itself. The candidate with the
smallest noisy distance is written:

    k ~ Poisson(ln(V - 1)) given 1 <= k <= V,    y = argmin over the k nearest of ||x - y|| + g_y,
    g ~ Gumbel(0, b) given |g| <= D_max,    b = 2 D_max / min(W(2 a D_max), ln(a D_min)),
    a = (epsilon - 2 (1 + ln V) / D_min) / 3,

where D_min and D_max are the smallest and largest distance of two words of the vocabulary, and W is Lambert's function
(principal branch). If a D_min <= 1, only the term with W is used.

There is no claim. The paper claims epsilon times the Euclidean distance, which is impossible. Let y be the r-th nearest
word to x. P(y | x) is at most the probability that k >= r. At any epsilon, this probability falls faster than
exponentially in r, as e^(-r ln r). The claim instead requires P(y | x) >= e^(-epsilon D_max) P(y | y). With 53-bit
uniforms k never exceeds some K of about 50, so words beyond the K nearest are never written. `as_published: true` makes
the paper's claim, so that it can be refuted. The scale b is undefined if a <= 0, that is, at a small epsilon or if two
words are nearly equal. Then b is set to infinity, and the noise is uniform on [-D_max, D_max].

Departures: the reference code (sjmeis/MLDP 65a9eb8) computes D_min and D_max from one random word, adds the noise to
squared distances, and allows k = 0, which leaves the word unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw
from scipy.stats import poisson

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism

_CELLS = 512  # intervals of the sum that replaces an integral in `laws`
_WORDS = 1 << 13  # private words in memory at a time


@component
class TruncatedGumbel(WordVectorMechanism):
    """The truncated Gumbel mechanism.

    as_published: True to make the paper's claim.
    """

    as_published: bool = False

    @cached_property
    def _survey(self) -> tuple[NDArray[np.int32], NDArray[np.float64], float, float]:
        """The K words nearest to each word and their distances, [V, K] each, D_min and D_max."""
        survey = self.vectors.survey(max(2, min(len(self._competitors), len(self.vectors))))
        if not survey[3]:
            raise UserError(
                "all words of the vocabulary have the same vector, so the noise has no scale; give other vectors",
                "EPS-M092",
            )
        return survey

    @cached_property
    def _range(self) -> tuple[float, float]:
        """D_min and D_max over all pairs of words of the vocabulary."""
        return self._survey[2:]

    def scale(self, epsilon: float) -> float:
        """Return the scale b of the noise; infinite if it is undefined."""
        low, high = self._range
        a = (epsilon - 2 * (1 + math.log(len(self.vocabulary))) / low) / 3 if low else -math.inf
        if a <= 0:
            return math.inf
        bound = lambertw(2 * a * high).real
        return 2 * high / (min(bound, math.log(a * low)) if a * low > 1 else bound)

    @cached_property
    def _competitors(self) -> NDArray[np.float64]:
        """P(k <= 1), P(k <= 2), ..., [K]. With 53-bit uniforms k never exceeds K."""
        size = len(self.vocabulary)
        if size < 3:
            raise UserError(
                f"truncated_gumbel needs a vocabulary of at least 3 words, got {size}; give a larger one", "EPS-M093"
            )
        law = poisson(math.log(size - 1))
        below, total = law.cdf(0), law.cdf(size) - law.cdf(0)
        reached = (law.cdf(np.arange(1, min(size, 256) + 1)) - below) / total
        return reached[: int(np.searchsorted(reached, 1 - 2.0**-53)) + 1]

    def _nearest(self, words: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the K words nearest to each of n words, and their distances, [n, K] each."""
        near, far, *_ = self._survey
        return near[words, : len(self._competitors)], far[words, : len(self._competitors)]

    def _noise(self, uniforms: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return the inverse CDF of the truncated Gumbel noise, elementwise."""
        high, b = self._range[1], self.scale(epsilon)
        if math.isinf(b):
            return high * (2 * uniforms - 1)
        low, top = (math.exp(-math.exp(-side * high / b)) for side in (-1, 1))
        return np.clip(-b * np.log(-np.log(low + uniforms * (top - low))), -high, high)

    def _survival(self, noise: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return P(g > noise), elementwise."""
        high, b = self._range[1], self.scale(epsilon)
        noise = np.clip(noise, -high, high)
        if math.isinf(b):
            return (high - noise) / (2 * high)
        low, top = (math.exp(-math.exp(-side * high / b)) for side in (-1, 1))
        return (top - np.exp(-np.exp(-noise / b))) / (top - low)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """None, since words beyond the k nearest are never written; as published, epsilon times the L2 distance."""
        return super().guarantee(epsilon) if self.as_published else None

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of the vocabulary.

        An integral is computed as a sum over 512 steps, with an error of about 1e-4.
        """

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            near, far = self._nearest(words)
            reached = self._competitors
            share = np.diff(reached, prepend=0.0)
            for epsilon in epsilons:
                law = np.full((len(words), len(self.vocabulary)), -np.inf)
                for i, distances in enumerate(far):
                    edges = np.linspace(distances[0] - self._range[1], distances[0] + self._range[1], _CELLS + 1)
                    survival = self._survival(edges - distances[:, None], epsilon)
                    wins = np.maximum(survival[:, :-1] - survival[:, 1:], 0)  # P(noisy distance is in the interval)
                    others = (survival[:, :-1] + survival[:, 1:]) / 2
                    # Sum over k of P(k) P(the word is in the interval, and the other k - 1 candidates are beyond it).
                    product = np.cumprod(others, axis=0)
                    weighted = np.cumsum((share[: len(distances), None] * product)[::-1], axis=0)[::-1]
                    p = (np.divide(wins * weighted, others, where=others > 0, out=np.zeros_like(wins))).sum(axis=1)
                    with np.errstate(divide="ignore"):
                        law[i, near[i]] = np.log(p / p.sum())
                yield law

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Each word uses 1 + K uniforms: one for k, and one per possible candidate."""
        private = self.vocabulary.encode(texts)
        outputs = np.empty(len(private.values), np.int32)
        for rows in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(private.offsets[1:] // _WORDS)) + 1):
            part = private.take(rows)
            near, far = self._nearest(part.values)
            uniforms = noise[rows].ragged(part.lengths, 1 + near.shape[1])
            competing = np.searchsorted(self._competitors, uniforms[:, 0], side="right") + 1
            noisy = far + self._noise(uniforms[:, 1:], epsilon)
            noisy[np.arange(near.shape[1]) >= competing[:, None]] = np.inf
            span = slice(private.offsets[rows[0]], private.offsets[rows[-1] + 1]) if len(rows) else slice(0, 0)
            outputs[span] = near[np.arange(len(near)), noisy.argmin(axis=1)]
        return self.written(texts, Ragged(outputs, private.offsets))
