"""1-Diffractor: moves words along one-dimensional lists (Meisenbacher, Chevli and Matthes, IWSPA 2024).

In plain words it replaces each word by a neighbour in a long list of words, a random number of places away.

A list orders the vocabulary so that neighbours have similar meanings (`shared/lists.py`). For each word one list is
sampled uniformly. The word's place p in that list is moved by k places (geometric), or to a place q (tem):

    geometric   P(k) = (1 - a) / (1 + a) a^|k|,  a = e^-epsilon; clipped to the ends of the list   (eqs. 3 to 5)
    tem         P(q | p) ~ exp(-epsilon / 2 min(|q - p|, gamma)),
                gamma = (2 / epsilon) ln((1 - beta)(V - 1) / beta),  beta = 0.001

Section 4.1.3 states that gamma depends on epsilon, without a formula; the formula above, for V words, is TEM's
(Carvalho et al., 2023).

A publication samples exactly (`epsilometer.core.exact_samplers`). For geometric noise, epsilon is then rounded down to
a multiple of 2^-40.

In the paper every list proposes a candidate, and one candidate is sampled. Sampling one list gives the same law. On one
list geometric noise gives P(y | x) <= e^(epsilon |p - p'|) P(y | x') for words x and x' at places p and p'. The mixture
over lists satisfies the same bound with d_max, the largest |p - p'| over lists (eq. 6).

tem is the exponential mechanism with the utility -m(p, q), where m(p, q) = min(|p - q|, gamma). For any gamma, m
satisfies the triangle inequality, since min(s + t, gamma) <= min(s, gamma) + min(t, gamma). So between p and p' every
weight exp(-epsilon / 2 m(p, q)) differs by a factor of at most e^(epsilon / 2 m(p, p')), and so does their sum:

    P(q | p) <= e^(epsilon m(p, p')) P(q | p').

For a mixture over lists, min(d_max, gamma) replaces m. Gamma may depend on epsilon and V, which are public, but not on
the word. By the formula above (`gamma: auto`) the places beyond gamma together have a probability of at most beta. The
loss between two words is then at most epsilon gamma = 2 ln(999 (V - 1)) at every epsilon. For 23,000 words this is 33.9
nats.

Assumptions: the claim is per word; texts are neighbours if they have the same number of words; all lists contain the
same public vocabulary, and every word of it can replace every word.

Departures: the reference code (sjmeis/Diffractor 338d305, c56f560) does not change stop-words, nor words and numbers
outside the lists. It takes candidates only from the lists that contain the word, so an output can exclude an
input. Here an out-of-vocabulary word is first replaced by a fixed word (`shared/vocabulary.py`). The reference code
sets gamma to 5; in the paper gamma depends on epsilon. `as_published: true` does not change stop-words, nor words and
numbers outside the lists; a number in the lists is moved like any word. It uses the reference code's gamma if the
settings give none, and states the published claim, so that an audit can refute the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws, in_cache
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared import embedded
from epsilometer.mechanisms.words.shared.base import WordMechanism
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.mechanisms.words.shared.vocabulary import Vocabulary
from epsilometer.text.words import STOP_WORDS, lay_out, words, write

_UNIT = 1 << 40  # in a publication, geometric noise has an epsilon that is a multiple of 2^-40
_BETA = 0.001  # largest probability of a move beyond gamma
_REFERENCE_GAMMA = 5


class Geometric(NamedTuple):
    """Two-sided geometric noise on the places 0 ... size - 1, clipped to the ends."""

    size: int

    def draw(self, places: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return noisy places [n], by inverting P(K <= -k) = P(K >= k) = a^k / (1 + a), k > 0, at uniforms [n]."""
        a = np.exp(-epsilon)
        down = uniforms * (1 + a) < a
        steps = -np.log(np.where(down, uniforms, 1 - uniforms) * (1 + a)) / epsilon
        moved = places + np.where(down, -np.floor(steps), np.maximum(np.ceil(steps) - 1, 0))
        return np.clip(moved, 0, self.size - 1).astype(np.int64)

    def move_exactly(self, places: NDArray[np.integer], epsilon: float, exact: ExactDraws) -> NDArray[np.int64]:
        """Return noisy places [n], sampled exactly: P(k) ~ e^(-epsilon |k|) with a rational epsilon."""
        rate = np.floor(np.broadcast_to(epsilon, places.shape) * _UNIT)
        if len(rate) and not 1 <= rate.min() <= rate.max() < 2.0**63:
            raise UserError(
                f"epsilon of a publication must be at least 2^-40 and below 2^23, got {epsilon:g}; choose another "
                "epsilon",
                "EPS-M083",
            )
        moved = places + exact.laplace(rate.astype(np.uint64), np.full(places.shape, _UNIT, np.uint64))
        return np.clip(moved, 0, self.size - 1)

    def log_law(self, places: NDArray[np.integer], moved: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return ln P(moved | places) for broadcast arrays."""
        inner = math.log(math.tanh(epsilon / 2))  # tanh: (1 - a) / (1 + a)
        end = -math.log1p(math.exp(-epsilon))
        ends = (moved == 0) | (moved == self.size - 1)
        return -epsilon * np.abs(moved - places.astype(np.float64)) + np.where(ends, end, inner)

    def excess(self, epsilon: float) -> float:
        """Return 0: the largest loss equals the claim, for outputs that do not lie between the two places."""
        return 0.0


class Truncated(NamedTuple):
    """The exponential mechanism on the distance of places truncated at gamma, on the places 0 ... size - 1.

    gamma: None for TEM's formula, which depends on epsilon.
    """

    size: int
    gamma: float | None = None

    def cut(self, epsilon: float) -> float:
        """Return gamma at this epsilon, limited to `size`, since larger values have no effect."""
        if self.gamma is not None:
            return min(self.gamma, self.size)
        return min(2 / epsilon * math.log((1 - _BETA) * (self.size - 1) / _BETA), self.size)

    def draw(self, places: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return noisy places [n] by inverse CDF in the order: the place itself, places below, above, beyond gamma."""
        half = epsilon / 2
        below, above, beyond, down, up, rest = self._weights(places, epsilon)
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

    def move_exactly(self, places: NDArray[np.integer], epsilon: float, exact: ExactDraws) -> NDArray[np.int64]:
        """Return noisy places [n], sampled exactly.

        Places within gamma are single choices. All places beyond gamma are one choice; if it is made, one of these
        places is sampled uniformly. All places at least gamma from both ends share one law of steps.
        """
        below, above, beyond = self._counts(places, epsilon)
        outside = exact.below(np.maximum(beyond, 1).astype(np.uint64)).astype(np.int64)
        moved = outside + np.where(outside < places - below, 0, below + above + 1)
        keys = np.stack([below, above, beyond, np.broadcast_to(epsilon, places.shape)])
        distinct, member = np.unique(keys, axis=1, return_inverse=True)
        for law, (left, right, rest, budget) in enumerate(distinct.T):
            at = np.flatnonzero(member.ravel() == law)
            steps = np.arange(-left, right + 1)
            with np.errstate(divide="ignore"):  # ln 0 if no place is beyond gamma
                far = np.log(rest) - budget / 2 * self.cut(budget)
            chosen = exact.choose(np.append(-budget / 2 * np.abs(steps), far), len(at))
            near = at[chosen < len(steps)]
            moved[near] = places[near] + steps[chosen[chosen < len(steps)]].astype(np.int64)
        return moved

    def log_law(self, places: NDArray[np.integer], moved: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return ln P(moved | places) for broadcast arrays."""
        *_, down, up, rest = self._weights(places, epsilon)
        distance = np.abs(moved - places.astype(np.float64))
        return -epsilon / 2 * np.minimum(distance, self.cut(epsilon)) - np.log(1 + down + up + rest)

    def excess(self, epsilon: float) -> float:
        """Return the largest |ln Z(p) - ln Z(q)| - epsilon / 2 min(|p - q|, gamma) over places p != q.

        The weights differ by at most half of the claim, so the normalisers Z may differ by the other half.
        """
        gamma = float(self.cut(epsilon))
        *_, down, up, rest = self._weights(np.arange(self.size), epsilon)
        log_total = np.log(1 + down + up + rest)
        far = float(np.ptp(log_total)) - epsilon / 2 * gamma if gamma < self.size - 1 else -math.inf
        near = (
            float(np.abs(log_total[k:] - log_total[:-k]).max()) - epsilon / 2 * min(k, gamma)
            for k in range(1, min(math.ceil(gamma) + 1, self.size))
        )
        return max([far, *near])

    def _counts(self, places: NDArray[np.integer], epsilon: float) -> tuple[NDArray[np.integer], ...]:
        """Return three numbers of places: below and within gamma, above and within gamma, and beyond gamma."""
        reach = np.maximum(np.ceil(self.cut(epsilon)).astype(np.int64) - 1, 0)
        below, above = np.minimum(places, reach), np.minimum(self.size - 1 - places, reach)
        return below, above, self.size - 1 - below - above

    def _weights(self, places: NDArray[np.integer], epsilon: float) -> tuple[NDArray, ...]:
        """Return `_counts`, and for each of its three sets of places the total weight.

        The place itself has weight 1, and a place k steps away within gamma has weight e^(-k epsilon / 2).
        """
        half = epsilon / 2
        below, above, beyond = self._counts(places, epsilon)
        down, up = (np.expm1(-half * n) / np.expm1(-half) * np.exp(-half) for n in (below, above))
        return below, above, beyond, down, up, beyond * np.exp(-half * self.cut(epsilon))


def _log_sum(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return np.logaddexp(left, right), bit for bit, computing it only where the smaller term affects the result.

    Log-probabilities on two lists nearly always differ by hundreds of nats, so this saves most of the time.
    """
    larger = np.maximum(left, right)
    # If the larger term is below -2^-10, a term 45 nats smaller adds less than half of the larger term's last bit, so
    # rounding removes it. In general, only a term 746 nats smaller surely adds nothing, since e^-746 is 0 in float64.
    far = 45.0 if larger.max(initial=-math.inf) < -(2.0**-10) else 746.0
    total: NDArray[np.float64] = np.logaddexp(left, right, out=larger, where=np.abs(left - right) <= far)
    return total


@component
class Diffractor(WordMechanism):
    """1-Diffractor.

    resource: an archive of word lists.

    gamma:      distance in a list beyond which tem treats all words alike; auto: by TEM's formula, from epsilon.
    lists_used: indices of the archive's lists to use; None: all lists.
    as_published: True to leave words unchanged and choose gamma as the reference code does, with the published claim.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(embedded.lists)

    noise: Literal["geometric", "tem"] = "geometric"
    gamma: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    lists_used: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    as_published: bool = False

    @cached_property
    def lists(self) -> WordLists:
        """The word lists that are used. Raises UserError for a list that the archive lacks."""
        lists = WordLists.load(self.resource)
        return lists if self.lists_used is None else lists.take(self.lists_used)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of inputs and outputs."""
        return Vocabulary(self.lists.words)

    @cached_property
    def _moves(self) -> Geometric | Truncated:
        size = len(self.lists.words)
        if self.noise == "geometric":
            return Geometric(size)
        if self.gamma == "auto":
            return Truncated(size, _REFERENCE_GAMMA if self.as_published else None)
        return Truncated(size, self.gamma)

    @cached_property
    def _passes(self) -> NDArray[np.bool_]:
        """Bool [V]: True for words of the vocabulary that stay unchanged."""
        return np.array([self.as_published and word in STOP_WORDS for word in self.vocabulary.words])

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, times the distance of the words; the number of words is not protected."""
        return self.claim(epsilon, "largest list distance")

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the sum over positions of d_max (for tem: of min(d_max, gamma)); infinite for different lengths."""
        place, largest = self.lists.place, self._farthest(epsilon)
        return self.vocabulary.distance(
            texts, pairs, lambda left, right: np.minimum(np.abs(place[:, left] - place[:, right]).max(axis=0), largest)
        )

    def _farthest(self, epsilon: float) -> float:
        """Return the largest possible distance in a list, for tem at most gamma."""
        ends = len(self.vocabulary) - 1
        return float(min(ends, self._moves.cut(epsilon)) if isinstance(self._moves, Truncated) else ends)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of the vocabulary. Single entries are computed in closed form."""
        everything = np.arange(len(self.vocabulary))

        def log_probabilities(private: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                table = np.empty((len(private), len(everything)))
                for rows in in_cache(table):
                    table[rows] = self._log_law(private[rows, None], everything, epsilon)
                yield table

        def entries(
            private: NDArray[np.integer], outputs: Sequence[NDArray[np.integer]], epsilons: Sequence[float]
        ) -> Iterator[NDArray[np.float64]]:
            return (self._log_law(private, out, epsilon) for out, epsilon in zip(outputs, epsilons, strict=True))

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities, entries)

    def _log_law(
        self, private: NDArray[np.integer], outputs: NDArray[np.integer], epsilon: float
    ) -> NDArray[np.float64]:
        place = self.lists.place
        each = (self._moves.log_law(p[private], p[outputs], epsilon) for p in place)
        law = reduce(_log_sum, each) - math.log(len(place))
        return (
            np.where(self._passes[private], np.where(private == outputs, 0.0, -np.inf), law)
            if self.as_published
            else law
        )

    def excess_bound(self, epsilon: float) -> float | None:
        """Return the largest excess over the claim on one list, which is also a bound for a mixture of lists."""
        return None if self.as_published else self._moves.excess(epsilon)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Each word uses two uniforms, for the list and for the move."""
        return self._moved(texts, self.vocabulary.encode(texts), epsilon, noise)

    def _moved(self, texts: Sequence[str], private: Ragged, epsilon: float, noise: Noise) -> Rewrites:
        lists = self.lists
        if noise.exact is not None:
            choices = np.full(len(private.values), len(lists.order), np.uint64)
            which = noise.exact.below(choices).astype(np.int64)
            moved = self._moves.move_exactly(lists.place[which, private.values], epsilon, noise.exact)
        else:
            uniforms = noise.ragged(private.lengths, 2)
            which = np.minimum((uniforms[:, 0] * len(lists.order)).astype(np.int64), len(lists.order) - 1)
            moved = self._moves.draw(lists.place[which, private.values], epsilon, uniforms[:, 1])
        outputs = lists.order[which, moved]
        if self.as_published:
            outputs = np.where(self._passes[private.values], private.values, outputs)
        return self.written(texts, Ragged(outputs, private.offsets))

    @property
    def text_is_units(self) -> bool:
        """True if the units determine the text; in the published form, the text also contains source words."""
        return super().text_is_units and not self.as_published

    def write(self, texts: Sequence[str], units: Ragged) -> list[str]:
        """Return texts as `WordMechanism.write` does; in the published form, words outside the lists stay unchanged."""
        if not self.as_published:
            return super().write(texts, units)
        names, index = self.vocabulary.words, self.vocabulary.index
        rows = [
            [names[unit] if word in index else word for word, unit in zip(words(text), units.row(i), strict=True)]
            for i, text in enumerate(texts)
        ]
        return list(map(write, rows) if self.layout == "normalised" else map(lay_out, texts, rows))
