"""A mechanism on a few letters, whose law is a table. It is small enough to enumerate every output of a text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import TEXT, UNITS, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise


class Spelled:
    """A mechanism that replaces each letter of a text independently.

    law: [letters, letters], log-probabilities at epsilon 1. Other budgets raise the probabilities to the power epsilon
    and normalise them. claimed: nats per letter, at epsilon 1.
    """

    releases = frozenset({TEXT, UNITS})

    def __init__(self, law: NDArray[np.float64], claimed: float | None = None) -> None:
        self.law, self.claimed = law, claimed
        self.inputs = self.output_texts = "abcdefgh"[: len(law)]

    def at(self, epsilon: float) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            sharpened = np.where(np.isneginf(self.law), -np.inf, epsilon * self.law)
        return np.asarray(sharpened - np.logaddexp.reduce(sharpened, axis=1, keepdims=True))

    def laws(self, texts: Sequence[str]) -> Laws:
        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                yield self.at(epsilon)[rows]

        rows = Ragged.of([[self.inputs.index(letter) for letter in text.replace(" ", "")] for text in texts])
        return Laws(rows, self.law.shape[1], log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
        return Rewrites([" ".join(self.inputs[u] for u in units.row(i)) for i in range(len(texts))], units)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        if self.claimed is None:
            return None
        return Guarantee(self.claimed * epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        words = [text.split() for text in texts]
        both = [(words[i], words[j]) for i, j in pairs]
        return np.array([sum(map(str.__ne__, x, y)) if len(x) == len(y) else np.inf for x, y in both], np.float64)

    def outputs(self, text: str, epsilon: float) -> NDArray[np.float64]:
        """Return the log-probability of every possible output of a text."""
        law = self.at(epsilon)
        return np.array([sum(row) for row in product(*(law[self.inputs.index(letter)] for letter in text.split()))])


class Likely(Spelled):
    """The same mechanism, with likelihoods of its outputs instead of laws."""

    laws = None  # type: ignore[assignment]

    def rewrite(self, texts: Any, epsilon: float, noise: Noise) -> Rewrites:
        return Spelled(self.law).rewrite(texts, epsilon, noise)

    def log_likelihoods(self, texts: Any, candidates: NDArray[np.integer], rewrites: Any, epsilons: Any) -> list[Any]:
        tables = []
        for output, epsilon in zip(rewrites, epsilons, strict=True):
            law, units = self.at(epsilon), [output.units.row(i) for i in range(len(candidates))]
            letters = [[self.inputs.index(letter) for letter in text.split()] for text in texts]
            tables.append(
                np.array(
                    [
                        [sum(law[letters[j], y]) if len(letters[j]) == len(y) else -math.inf for j in sets]
                        for sets, y in zip(candidates, units, strict=True)
                    ]
                )
            )
        return tables
