"""Comparison of three ways to obtain training data: public texts alone, rewrites of texts, a released corpus.

Each way gives labelled texts, on which a classifier of embeddings is trained (`checks.head`). Its macro F1 is measured
on held-out clean texts, the same for all ways:

1. public texts alone: 64 of them are labelled by hand, and their labels spread to the others
   (`post_processing.spread`);
2. texts rewritten one at a time, with unprotected labels. One classifier is trained on the rewrites themselves, another
   on public texts that the rewrites label (each rewrite votes for its nearest exemplar, without noise). Separate texts
   choose the better classifier, whose F1 is reported;
3. the whole corpus, released by `vote_histogram` with one draw of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.corpora.checks import Head, head, learnt
from epsilometer.auditing.corpora.vote_loss import guess_loss
from epsilometer.core.corpus_mechanism import Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.noisy_table import CellNoise, exact_draws
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts, nearest, on_grid
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram

BY_HAND = 64  # public texts that are labelled by hand

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """Texts with unit vectors [n, d] and labels."""

    texts: Sequence[str]
    vectors: Array
    labels: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def at(self, rows: NDArray[np.integer]) -> Labelled:
        """Return the texts in these rows."""
        each = rows.tolist()
        return Labelled([self.texts[row] for row in each], self.vectors[rows], [self.labels[row] for row in each])


@dataclass(frozen=True)
class Ways:
    """Disjoint public, private and held-out texts.

    choice: held-out texts for choosing among ways; tests: held-out texts for the F1 of the chosen way. labels: the
    public list of labels. seed: the seed of the clustering and of the noise.
    """

    public: Labelled
    private: Labelled
    choice: Labelled
    tests: Labelled
    labels: tuple[str, ...]
    seed: int = 0

    @cached_property
    def _vectors(self) -> dict[str, Array]:
        return dict(zip(self.public.texts, self.public.vectors, strict=True))

    @cached_property
    def mechanism(self) -> VoteHistogram:
        """`vote_histogram` on the public texts."""
        texts = tuple(self.public.texts)
        public = PublicTexts.of(texts, lambda texts: np.array([self._vectors[text] for text in texts]), self.seed)
        return VoteHistogram(resource=texts, labels=self.labels).on(public)

    def by_hand(self) -> tuple[int, float]:
        """Return the number of public texts labelled by hand, and the F1."""
        count = min(BY_HAND, len(self.mechanism.public))
        label = dict(zip(self.public.texts, self.public.labels, strict=True))
        places = self.mechanism.public.exemplars(count)
        votes = self._votes(np.arange(count), [label[self.mechanism.public.texts[place]] for place in places], count)
        return count, _f1(self._head(self.mechanism.labelled(votes, 0.0)), self.tests)

    def rewritten(self, rewrites: Labelled) -> tuple[float, float]:
        """Return the F1 on `choice` and on `tests` of the classifier with the higher F1 on `choice`."""
        as_they_are = Release(rewrites.texts, np.ones(len(rewrites)), rewrites.labels)
        m = self.mechanism.number(len(rewrites), 1.0)
        votes = self._votes(self._cells(rewrites.vectors, m), rewrites.labels, m)
        trained = [head(rewrites.vectors, as_they_are), self._head(self.mechanism.labelled(votes, 0.0))]
        return max(((_f1(each, self.choice), _f1(each, self.tests)) for each in trained), key=lambda both: both[0])

    def released(self, epsilon: float) -> float:
        """Return the F1 of a release of the private texts."""
        m = self.mechanism.number(len(self.private), epsilon)
        votes = self._votes(self._cells(self.private.vectors, m), self.private.labels, m).astype(np.int64)
        draws = exact_draws(Noise.named(1, self.seed, "ways", epsilon))
        noise = self.mechanism.cell_noise(epsilon).draw(votes.size, draws)
        return _f1(self._head(self.mechanism.published(votes + noise.reshape(votes.shape), epsilon)), self.tests)

    def _cells(self, vectors: Array, m: int) -> NDArray[np.int64]:
        public = self.mechanism.public
        return nearest(on_grid(vectors), public.vectors[public.exemplars(m)])

    def _votes(self, cells: NDArray[np.integer], labels: Sequence[str], m: int) -> Array:
        place, votes = {label: i for i, label in enumerate(self.labels)}, np.zeros((m, len(self.labels)))
        np.add.at(votes, (cells, np.array([place[label] for label in labels], np.int64)), 1)
        return votes

    def _head(self, release: Release) -> Head | None:
        return head(np.array([self._vectors[text] for text in release.texts]), release)


def _f1(fitted: Head | None, on: Labelled) -> float:
    return learnt(fitted, on.vectors, on.labels) or 0.0


def loss_of_release(epsilon: float) -> float:
    """Return epsilon / 2, the guess loss in nats between two texts that vote for different cells (`vote_loss`)."""
    return guess_loss(np.eye(2, dtype=np.int64), float(CellNoise(epsilon, votes=1, replaced=True).rate))
