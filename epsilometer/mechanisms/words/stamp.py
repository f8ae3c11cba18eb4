"""STAMP's polar mechanism: turns the direction of each word's vector at random (Tian et al., EACL 2026).

In plain words it turns the meaning of each word in a random direction, and writes the word nearest to the result.

The paper is arXiv:2603.12237. Let e be a word's vector and u = e / |e| its direction. The direction y is sampled from
the von Mises-Fisher distribution vMF(u, kappa), of density ~ e^(kappa u'y) on the unit sphere, and the word with the
largest cosine with y is written.

The claim is epsilon |u - u'| per word, with kappa = epsilon: the log-densities of two words differ by at most
kappa |u - u'|, and writing a word is post-processing. The loss of y is computed exactly
(`auditing/exact_loss/directions.py`); the loss of the written word is at most the loss of y.

**Groups.** The budget of a word depends on its group: sensitive and important, only sensitive, only important, neither,
with shares 2 : 1 : 4 : 3 of epsilon. A word is important if its cosine with a public `query` is at least `threshold`.
The groups depend on the private text, so the claim only covers texts whose words have the same groups, position by
position. Between words of different groups the log-ratio of densities is still bounded, by

    |kappa u - kappa' u'| + |ln M(kappa) - ln M(kappa')|,    M(kappa) = E e^(kappa U), U the cosine of a uniform
    direction,

but the paper does not claim this bound. For example, in 768 dimensions, the loss between two orthogonal words with
budgets 150 and 450 is up to 576 nats. Between orthogonal words of one group, the claim is sqrt(2) 150 = 212 or
sqrt(2) 450 = 636 nats. A secret without a digit that `sensitive` does not list gets the larger budget of words that are
not sensitive.

Without `query` and `sensitive` (default) there is one group, and the claim covers all texts with the same number of
words. `as_published: true` uses kappa = epsilon / pi as in the authors' code (FTian-UArizona/STAMP ad891fa), with the
same claim. This kappa is smaller than the paper's by a factor of pi, so it is more conservative.

The code's README states the claim with the angle as the distance. With kappa = epsilon / pi, the loss is at most
epsilon times the angle in units of pi, since |u - u'| is at most the angle in radians.

Assumptions: the claim is per word; vectors, query, list and vocabulary are public.

The claim is about real numbers, but samples are computed in floating point. Rounding adds loss, and no bound on this
loss is proved. So the mechanism refuses publications (`publishes`). It allows audits, which sample from a seeded
stream.

Departures: units are words instead of GPT-2's tokens. An out-of-vocabulary word is first replaced by a fixed word. A
word is sensitive if it is on a public list or has a digit, whereas the code looks for capitals and patterns in the
text. The code's variants with an infinite epsilon, which leave words unchanged, are not included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import LATENTS, Directions, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.base import WordVectorMechanism
from epsilometer.mechanisms.words.shared.turned import turned_about, uniforms_of_a_draw
from epsilometer.text.words import words

_WORDS = 1 << 11  # words in memory at a time; a text is never split
_KAPPAS = (1e-3, 1e9)  # range of concentrations for which float64 is exact enough


@component
class Stamp(WordVectorMechanism):
    """The polar mechanism of STAMP.

    as_published: True for the code's concentration epsilon / pi.
    query:        public words of the task; None: no word is important.
    sensitive:    a file of public words, one per line. Words with a digit are sensitive, too. There are groups only if
                  `query` or `sensitive` is given.
    threshold:    smallest cosine of an important word with the query.
    shares:       shares of epsilon for words that are sensitive and important, only sensitive, only important, neither.
    """

    law_of: ClassVar[str] = LATENTS
    publishes: ClassVar[bool] = False  # no bound on the rounding error of a sample is proved

    normalise: bool = True
    as_published: bool = False
    query: str | None = None
    sensitive: Path | None = None
    threshold: Annotated[float, Field(ge=-1, le=1)] = 0.5
    shares: tuple[float, float, float, float] = (2, 1, 4, 3)

    @field_validator("normalise")
    @classmethod
    def _directions_alone(cls, value: bool) -> bool:
        if not value:
            raise ValueError("normalise must be true, since the mechanism uses only directions of vectors; omit it")
        return value

    @field_validator("shares")
    @classmethod
    def _positive(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < share < math.inf for share in value):
            raise ValueError(
                "shares must be finite numbers > 0, since a share of 0 would mark its words, and an infinite share "
                "would leave them unchanged"
            )
        return value

    @cached_property
    def _units(self) -> NDArray[np.float64]:
        """The directions of all words, float64 [V, d], of length 1."""
        from epsilometer.core.von_mises_fisher import check_concentration  # loads scipy, and checks may not need it

        units = self.vectors.exact / np.linalg.norm(self.vectors.exact, axis=1, keepdims=True)
        check_concentration(1.0, units.shape[1])
        return units

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The group of each word, [V], an index into `shares`; all 0 without `query` and `sensitive`."""
        if not self._selective:
            return np.zeros(len(self.vocabulary), np.int64)
        listed = self._listed
        private = np.array([w in listed or any(c.isdigit() for c in w) for w in self.vocabulary.words], bool)
        return np.where(private, 0, 2) + np.where(self._important, 0, 1)

    @property
    def _selective(self) -> bool:
        return self.query is not None or self.sensitive is not None

    @cached_property
    def _listed(self) -> set[str]:
        if self.sensitive is None:
            return set()
        try:
            return set(words(self.sensitive.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"the sensitive words {str(self.sensitive)!r} cannot be read ({error}); give a text file with one word "
                "per line",
                "EPS-M106",
            ) from error

    @cached_property
    def _important(self) -> NDArray[np.bool_]:
        if self.query is None:
            return np.zeros(len(self.vocabulary), bool)
        numbers = [self.vocabulary.index[w] for w in words(self.query) if w in self.vocabulary.index]
        centre = self._units[numbers].sum(axis=0)
        length = float(np.linalg.norm(centre))
        if not length:
            raise UserError(
                f"no word of the query {self.query!r} is in the vocabulary; give a query with words of the vocabulary, "
                "or omit query",
                "EPS-M107",
            )
        return np.asarray(self._units @ (centre / length) >= self.threshold, bool)

    @cached_property
    def _share(self) -> NDArray[np.float64]:
        """The share of epsilon of each word, [V]."""
        return np.array(self.shares)[self.groups] if self._selective else np.ones(len(self.vocabulary))

    def _concentrations(self, epsilon: float) -> NDArray[np.float64]:
        """Return the concentration kappa of each word, [V]."""
        kappas = self._share * (epsilon / math.pi if self.as_published else epsilon)
        if kappas.min() < _KAPPAS[0] or kappas.max() > _KAPPAS[1]:
            raise UserError(
                f"stamp at epsilon {epsilon:g} has concentrations from {kappas.min():.3g} to {kappas.max():.3g}; "
                f"choose an epsilon at which they are from {_KAPPAS[0]:g} to {_KAPPAS[1]:g}",
                "EPS-M108",
            )
        return kappas

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per word, times the distance of the directions, for words of equal groups."""
        return self.claim(
            epsilon,
            "L2 distance of directions, by the group's share" if self._selective else "L2 distance of directions",
        )

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the sum over positions of share times distance; infinite if lengths or groups differ."""

        def between(left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.float64]:
            apart = np.linalg.norm(self._units[left] - self._units[right], axis=1)
            return np.where(self.groups[left] == self.groups[right], self._share[left] * apart, np.inf)

        return self.vocabulary.distance(texts, pairs, between)

    def directions(self, texts: Sequence[str], epsilon: float) -> Directions:
        """Return the directions and concentrations of the words, as in `TurnsVectors`."""
        return Directions(self.vocabulary.encode(texts), self._units, self._concentrations(epsilon))

    def turned(self, texts: Sequence[str], epsilon: float, noise: Noise) -> NDArray[np.float64]:
        """Return the sampled directions for one-word texts, as in `TurnsVectors`."""
        return self._turns(self.vocabulary.encode(texts), epsilon, noise)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Directions are sampled by Wood's algorithm, and the nearest word is written."""
        private, outputs = self.vocabulary.encode(texts), []
        for rows in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(private.offsets[1:] // _WORDS)) + 1):
            turns = self._turns(private.take(rows), epsilon, noise[rows])
            outputs.append(self.vectors.nearest(turns))
        return self.written(texts, Ragged(np.concatenate(outputs).astype(np.int32), private.offsets))

    def _turns(self, private: Ragged, epsilon: float, noise: Noise) -> NDArray[np.float64]:
        uniforms = noise.ragged(private.lengths, uniforms_of_a_draw(self._units.shape[1]))
        return turned_about(self._units[private.values], self._concentrations(epsilon)[private.values], uniforms)
