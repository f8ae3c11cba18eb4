"""Base class of mechanisms that release noisy votes: neighbours, noise, and the release."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.counting import Counting
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise, exact_draws


@component
class NoisyVotes(Counting):
    """A mechanism that releases post-processed noisy counts of votes.

    delta: 0 for Laplace noise, above 0 for Gaussian noise.
    labels, unit, most, neighbours: as in `counting.py`.
    """

    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def guarantee(self, epsilon: float) -> Guarantee:
        """Epsilon for a unit's texts; (epsilon, delta) with Gaussian noise."""
        unit, neighbours = Granularity(self.unit), Neighbours(self.neighbours)
        return Guarantee(epsilon, unit, neighbours, delta=self.delta, public=self.assumed)

    def cell_noise(self, epsilon: float) -> CellNoise:
        """Return the noise of each cell."""
        return CellNoise(epsilon, self.most, self.neighbours == "replaced", self.delta)

    def voters(self, corpus: PrivateCorpus, key: bytes) -> tuple[list[str], NDArray[np.int64]]:
        """Return the texts that vote and the indices [n] of their labels, as `eligible` does."""
        voting, labels = self.eligible(corpus, key)
        return list(voting.texts), labels

    def cells(self, epsilon: float) -> int:
        """Return the smallest number of cells per label; 1 unless overridden."""
        return 1

    def needed(self, epsilon: float) -> int:
        """Return the fewest people (or texts) for which the mean votes of a label reach its noise's standard deviation.

        With L labels, c = `most` votes each and noise variance v in each cell, the number is L sqrt(cells v) / c.
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
