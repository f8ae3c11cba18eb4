"""Comparison of three sources of training data: public texts alone, rewrites of texts, a released corpus.

Each way ends in texts with labels. A classifier of embeddings is trained on them (`checks.head`), and its macro F1 is
measured on the same held-out clean texts:

1. public texts alone: 64 of them are labelled by hand, and their labels spread to the others
   (`post_processing.spread`);
2. texts rewritten one at a time, with unprotected labels: F1 is the larger one of two trainings, on the rewrites
   themselves and on public texts that the rewrites label (each rewrite votes for its nearest exemplar, without noise);
3. the whole corpus, released by `vote_histogram`: F1 is the mean over draws of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.corpora.checks import head, learnt
from epsilometer.auditing.corpora.vote_loss import guess_loss
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise, exact_draws
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts, nearest, on_grid
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram

BY_HAND = 64  # public texts that are labelled by hand
DRAWS = 5  # draws of the noise

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """Texts with unit vectors [n, d] and labels."""

    texts: Sequence[str]
    vectors: Array
    labels: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Ways:
    """Disjoint public, private and held-out texts. labels: the public list of labels. seed: the seed of the noise."""

    public: Labelled
    private: Labelled
    tests: Labelled
    labels: tuple[str, ...]
    seed: int = 0

    @cached_property
    def _vectors(self) -> dict[str, Array]:
        parts = (self.public, self.private, self.tests)
        return {text: row for part in parts for text, row in zip(part.texts, part.vectors, strict=True)}

    @cached_property
    def mechanism(self) -> VoteHistogram:
        """`vote_histogram` on the public texts."""
        texts = tuple(self.public.texts)
        public = PublicTexts.of(texts, lambda texts: np.array([self._vectors[text] for text in texts]), 0)
        return VoteHistogram(resource=texts, labels=self.labels).on(public)

    def by_hand(self) -> tuple[int, float]:
        """Return the number of public texts labelled by hand, and F1."""
        count = min(BY_HAND, len(self.mechanism.public))
        label = dict(zip(self.public.texts, self.public.labels, strict=True))
        places = self.mechanism.public.exemplars(count)
        votes = self._votes(np.arange(count), [label[self.mechanism.public.texts[place]] for place in places], count)
        return count, self._f1(self.mechanism.labelled(votes, 0.0))

    def rewritten(self, rewrites: Labelled) -> float:
        """Return the larger F1: of the rewrites themselves, or of public texts that the rewrites label."""
        as_they_are = self._score(rewrites.vectors, Release(rewrites.texts, np.ones(len(rewrites)), rewrites.labels))
        m = self.mechanism.number(len(rewrites), 1.0)
        public = self.mechanism.public
        cells = nearest(on_grid(rewrites.vectors), public.vectors[public.exemplars(m)])
        return max(as_they_are, self._f1(self.mechanism.labelled(self._votes(cells, rewrites.labels, m), 0.0)))

    def released(self, epsilon: float) -> float:
        """Return the mean F1 of releases of the private texts."""
        corpus = PrivateCorpus(self.private.texts, None, self.private.labels)
        votes, noise = self.mechanism.votes(corpus, epsilon, b"0" * 32), self.mechanism.cell_noise(epsilon)
        draws = (exact_draws(Noise.named(1, self.seed, "ways", epsilon, draw)) for draw in range(DRAWS))
        tables = (votes + noise.draw(votes.size, each).reshape(votes.shape) for each in draws)
        return float(np.mean([self._f1(self.mechanism.published(table, epsilon)) for table in tables]))

    def _votes(self, cells: NDArray[np.integer], labels: Sequence[str], m: int) -> Array:
        place, votes = {label: i for i, label in enumerate(self.labels)}, np.zeros((m, len(self.labels)))
        np.add.at(votes, (cells, np.array([place[label] for label in labels], np.int64)), 1)
        return votes

    def _f1(self, release: Release) -> float:
        return self._score(np.array([self._vectors[text] for text in release.texts]), release)

    def _score(self, vectors: Array, release: Release) -> float:
        return learnt(head(vectors, release), self.tests.vectors, self.tests.labels) or 0.0


def loss_of_release(epsilon: float) -> float:
    """Return epsilon / 2, the guess loss in nats between two texts that vote for different cells (`vote_loss`)."""
    return guess_loss(np.eye(2, dtype=np.int64), float(CellNoise(epsilon, votes=1, replaced=True).rate))
