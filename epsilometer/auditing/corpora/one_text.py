"""A release of noisy votes as the rewrite of one text, so that questions about rewrites apply to the release.

The release is a noisy table, and each text votes for one of its cells (`vote_histogram`). The adversary knows all texts
of the corpus but one, and guesses the remaining text. After subtracting the votes of the known texts, each cell shows
the unknown text's vote, 0 or 1, plus noise of rate r. A cell is called "up" if this sum is at least 1. The bit "up or
not" is a sufficient statistic: the likelihood ratio of a vote of 1 to a vote of 0 is e^r for all sums of at least 1,
and e^-r for all other sums. With a vote, a cell is up with probability 1 / (1 + e^-r); without a vote, with probability
e^-r / (1 + e^-r). So the law of a text is that of one bit per cell, and an output lists the cells that are up.

Private evolution releases such a table in each of R rounds. Texts with different labels vote for different cells in
every round, whatever the earlier tables were. So their R tables have the law of R independent tables. Texts with the
same label may share a cell in some rounds, and the noise decides in which rounds. So texts with the same label have no
law of this form (`rounds_loss` gives an upper bound).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import TEXT, UNITS, Repeated, Rewrites
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram


class OneText:
    """Mechanism that "rewrites" a text as its trace in a release with Laplace noise; each person has one text.

    m: the number of exemplars, which is public. labels: the label of each text, if the mechanism has labels. With
    several rounds, all texts must have different labels.
    """

    releases: ClassVar[frozenset[str]] = frozenset({TEXT, UNITS})

    def __init__(self, mechanism: VoteHistogram, m: int, labels: Mapping[str, str] | None = None) -> None:
        if mechanism.neighbours != "replaced" or mechanism.most != 1 or mechanism.delta:
            raise UserError(
                "the view of one text needs one text per person (most: 1), neighbours: replaced, and Laplace noise "
                "(delta: 0); for other releases use vote_loss or rounds_loss of epsilometer.auditing.corpora",
                "EPS-A197",
            )
        if bool(mechanism.labels) != bool(labels):
            raise UserError("the mechanism and the texts must both have labels, or neither", "EPS-A198")
        self.mechanism, self.m, self.labels = mechanism, m, labels or {}
        self.rounds = mechanism.rounds if isinstance(mechanism, PrivateEvolution) else 1
        self.shown_as = f"{'vote_histogram' if self.rounds == 1 else 'private_evolution'}, one text"

    def guarantee(self, epsilon: float) -> Guarantee:
        """Return the claim: epsilon between any two texts in place of the unknown text."""
        public = self.mechanism.guarantee(epsilon).public
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY, public=f"all other texts, {public}")

    @property
    def public_texts(self) -> Sequence[str]:
        """The public texts of the mechanism."""
        return self.mechanism.public_texts

    def cells(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the index [n] of each text's cell; -1 for a label that is not in the list."""
        nearest = self.mechanism.public.nearest(texts, self.m)
        if not self.labels:
            return nearest
        numbers = {label: number for number, label in enumerate(self.mechanism.labels)}
        own = np.array([numbers.get(self.labels.get(text, ""), -1) for text in texts])
        return np.where(own < 0, -1, nearest * len(numbers) + own)

    def laws(self, texts: Sequence[str]) -> Laws:
        """Return the laws of each text's cells: row 0 without a vote, row 1 with a vote. Output 1 means "up".

        Raises UserError for several rounds and two texts with one label.
        """
        own = [self.labels.get(text) for text in texts]
        if self.rounds > 1 and len(set(own)) < len(own):
            raise UserError(
                "with several rounds, texts with the same label may share a cell; give one text for each label, or use "
                "rounds_loss of epsilometer.auditing.corpora",
                "EPS-A235",
            )
        count = self.rounds * self.m * max(1, len(self.mechanism.labels))
        votes = np.tile(self.cells(texts)[:, None] == np.arange(count // self.rounds), self.rounds)

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for epsilon in epsilons:
                rate = float(self.mechanism.cell_noise(epsilon).rate)
                likely, other = -np.log1p(np.exp(-rate)), -rate - np.log1p(np.exp(-rate))
                yield np.array([[likely, other], [other, likely]])[rows]

        rows = Ragged.from_lengths(votes.astype(np.int64).ravel(), np.full(len(texts), count))
        return Laws(rows, 2, log_probabilities)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the cells that are up, as text, and all bits as units."""
        repeated = texts if isinstance(texts, Repeated) else Repeated(texts, np.arange(len(texts)))
        used, source = np.unique(repeated.numbers, return_inverse=True)
        laws = self.laws([repeated.texts[i] for i in used])
        (units,) = sample(laws, source, [epsilon], [noise])
        bits = units.values.reshape(len(source), -1)
        return Rewrites([" ".join(map(str, np.flatnonzero(row))) for row in bits], units)
