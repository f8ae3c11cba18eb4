"""SanText+: SanText in which common words may stay unchanged (Yue et al., Findings of ACL 2021, algorithm 2).

In plain words it replaces rare words by others chosen at random near them, and keeps some common words as they are.

A word of the sensitive set S is replaced by SanText over S. Any other word stays unchanged with probability `keep`, and
is otherwise replaced in the same way:

    P(y | x) = [x not in S and y = x] keep + (1 - [x not in S] keep) exp(-epsilon / 2 ||x - y||) / Z_S(x).

The second term is 0 for y outside S; its normaliser Z_S sums over S. There is no claim. A released word outside S was
certainly in the source, so no epsilon holds between that word and other words; the paper's utility-optimised privacy
covers only the words of S. The law is known, so the likelihood attack applies.

Departures: in the paper S is the less frequent half of the private corpus's words. Here S is public: a file of words,
or the second half of the file of word vectors, which is in order of frequency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws, log_softmax
from epsilometer.mechanisms.words.shared.kernel import KernelMechanism
from epsilometer.text.words import words as words_of


@component
class SanTextPlus(KernelMechanism):
    """SanText+.

    sensitive: a file of the sensitive words, one per line; None: the second half of the vectors' words. keep:
    probability that any other word stays unchanged.
    """

    sensitive: Path | None = None
    keep: Annotated[float, Field(ge=0, lt=1)] = 0.8

    @cached_property
    def outputs(self) -> NDArray[np.int64]:
        """The indices of the sensitive words, the possible outputs of SanText."""
        size = len(self.vocabulary)
        if self.sensitive is None:
            return np.arange(size // 2, size)
        if not self.sensitive.is_file():
            raise UserError(
                f"file {str(self.sensitive)!r} not found; give a file of sensitive words, one per line", "EPS-M084"
            )
        named = {word for line in self.sensitive.read_text("utf-8").splitlines() for word in words_of(line)}
        numbers = np.array([i for i, word in enumerate(self.vocabulary.words) if word in named], np.int64)
        if not len(numbers):
            raise UserError(
                f"{self.sensitive} contains no word of the vocabulary; list words that are in {self.resource}",
                "EPS-M085",
            )
        return numbers

    @cached_property
    def _stays(self) -> NDArray[np.float64]:
        """The probability that each word is kept instead of sampled, [V]."""
        stays = np.full(len(self.vocabulary), self.keep)
        stays[self.outputs] = 0
        return stays

    def log_weights(self, distances: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
        """Return the log-weights: -epsilon / 2 times the distance."""
        return -epsilon / 2 * distances

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """None: an unchanged word is revealed."""
        return None

    def excess_bound(self, epsilon: float) -> float | None:
        """None: nothing is claimed."""
        return None

    def draw(self, words: NDArray[np.integer], epsilon: float, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the words [n] sampled for words [n]. A uniform below `_stays` leaves the word unchanged."""
        stays = self._stays[words]
        replaced = uniforms >= stays
        out = words.astype(np.int32)
        rest = (uniforms[replaced] - stays[replaced]) / (1 - stays[replaced])
        out[replaced] = super().draw(words[replaced], epsilon, rest)
        return out

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws, with one row per word of the vocabulary."""

        def log_probabilities(words: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            stays = self._stays[words]
            distances = self.vectors.distances(words, self.outputs)
            for epsilon in epsilons:
                law = np.full((len(words), len(self.vocabulary)), -np.inf)
                law[:, self.outputs] = log_softmax(self.log_weights(distances, epsilon)) + np.log1p(-stays)[:, None]
                staying = np.flatnonzero(stays)
                law[staying, words[staying]] = np.log(stays[staying])
                yield law

        return Laws(self.vocabulary.encode(texts), len(self.vocabulary), log_probabilities, table=self._release_table)
