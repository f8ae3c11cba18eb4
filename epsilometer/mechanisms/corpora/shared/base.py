"""Base class of mechanisms that release noisy votes: the votes that count, neighbours, noise, and the release."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.counted import check_labels, counted, label_numbers, labelled_only
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise, exact_draws


@component
class NoisyVotes(ABC):
    """A mechanism that releases post-processed noisy counts of votes.

    labels:     the public list of labels; texts with other labels cast no vote.
    unit:       protected unit: user (all texts of a person) or document.
    most:       c, most texts of a person that count; 1 for unit: document.
    neighbours: replaced, or "added or removed".
    delta:      0 for Laplace noise, above 0 for Gaussian noise.
    """

    labels: tuple[str, ...] = ()
    unit: Literal["user", "document"] = "user"
    most: PositiveInt = 1
    neighbours: Literal["replaced", "added or removed"] = "replaced"
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> NoisyVotes:
        check_labels(self.labels)
        if self.unit == "document" and self.most != 1:
            raise ValueError(f"most must be 1 for unit: document, which protects one text, got {self.most}")
        return self

    @property
    def public_sources(self) -> Sequence[str]:
        """Descriptions of the public data that a release uses."""
        return ["the list of labels"] if self.labels else []

    def guarantee(self, epsilon: float) -> Guarantee:
        """Epsilon for a unit's texts; (epsilon, delta) with Gaussian noise."""
        sizes = {"user": "the number of people", "document": "the number of texts"}
        public = [*self.public_sources, *([sizes[self.unit]] if self.neighbours == "replaced" else [])]
        unit, neighbours = Granularity(self.unit), Neighbours(self.neighbours)
        return Guarantee(epsilon, unit, neighbours, delta=self.delta, public=", ".join(public) or None)

    def cell_noise(self, epsilon: float) -> CellNoise:
        """Return the noise of each cell."""
        return CellNoise(epsilon, self.most, self.neighbours == "replaced", self.delta)

    def units(self, corpus: PrivateCorpus) -> int:
        """Return the number of people, or of texts for unit: document."""
        return corpus.count_people if self.unit == "user" else len(corpus)

    def voters(self, corpus: PrivateCorpus, key: bytes) -> tuple[list[str], NDArray[np.int64]]:
        """Return the texts that vote and the indices [n] of their labels, 0 without labels.

        key: key of the hash that selects a person's texts.
        """
        numbers = check_labels(self.labels)
        eligible = labelled_only(corpus, numbers)
        rows = counted(eligible, self.most if self.unit == "user" else None, key)
        labels = label_numbers(eligible, numbers)[rows] if numbers else np.zeros_like(rows)
        return [eligible.texts[row] for row in rows.tolist()], labels

    def cells(self, epsilon: float) -> int:
        """Return the smallest number of cells per label; 1 unless overridden."""
        return 1

    def needed(self, epsilon: float) -> int:
        """Return the fewest people (or texts) for which a label's average votes reach the noise's standard deviation.

        For L labels and noise of variance v per cell it is L sqrt(cells v) / c.
        """
        noise = math.sqrt(self.cells(epsilon) * self.cell_noise(epsilon).variance)
        return math.ceil(max(1, len(self.labels)) * noise / self.most)

    @abstractmethod
    def votes(self, corpus: PrivateCorpus, epsilon: float, key: bytes) -> NDArray[np.int64]:
        """Return the private table of votes."""

    @abstractmethod
    def published(self, table: NDArray[np.int64], epsilon: float) -> Release:
        """Return the release, computed from a noisy table and public data only."""

    def noisy_votes(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> NDArray[np.int64]:
        """Return the noisy table. Nothing else is computed from private texts."""
        draws = exact_draws(noise)
        table = self.votes(corpus, epsilon, draws.words(4).tobytes())
        return table + self.cell_noise(epsilon).draw(table.size, draws).reshape(table.shape)

    def release(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> Release:
        """Return a release as in `CorpusMechanism`."""
        return self.published(self.noisy_votes(corpus, epsilon, noise), epsilon)
