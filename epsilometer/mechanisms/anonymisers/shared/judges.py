"""Who judges an edited text: panels of classifiers with an aim for each attribute, the tagger, and guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.in_step import Asker
from epsilometer.models.ledger import Ledger

Tags = Callable[[Sequence[tuple[str, ...]]], Sequence[tuple[str, ...]]]  # sentences as words -> their tags
_LEAST = 1e-300  # of a probability, so that its logarithm is finite


@dataclass(frozen=True, eq=False)
class Panel:
    """The classifiers of one label, of different kinds, as a ledger names them.

    enough: how many of them have to answer as wanted.
    """

    ledger: Ledger
    names: Sequence[str]
    enough: int = 1

    def __call__(self, questions: Sequence[tuple[int, str]]) -> list[NDArray[np.float64]]:
        """Log-probabilities [names, classes] of each text; questions: for which private text, and the text."""
        owners, texts = [owner for owner, _ in questions], [text for _, text in questions]
        rows = np.stack([self.ledger.probabilities(name, texts, owners) for name in self.names], axis=1)
        return list(np.log(np.maximum(rows, _LEAST)))


@dataclass(frozen=True)
class Aim:
    """What the classifiers of one attribute are to say of a text.

    away: any class but number `away`; toward: class number `toward`; near: log-shares of the classes, to come close to.
    margin: the log-odds by which they have to err, or the distance of log-probabilities that may remain.
    """

    away: int | None = None
    toward: int | None = None
    near: NDArray[np.float64] | None = None
    margin: float = 0.0

    def judge(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """rows: log-probabilities [n, kinds, c] -> [n, kinds] by how much the aim is exceeded, and the confidence."""
        if self.near is not None:
            distance = np.abs(rows - self.near).max(axis=-1)
            return self.margin - distance, -distance
        wanted = np.ones(rows.shape[-1], bool)
        if self.toward is not None:
            wanted[:] = False
        named = self.away if self.toward is None else self.toward
        assert named is not None
        wanted[named] = self.toward is not None
        best, rest = rows[..., wanted].max(axis=-1), rows[..., ~wanted].max(axis=-1)
        excess = best - rest - self.margin
        # The prediction is the first of equally likely classes.
        return np.where(wanted[rows.argmax(axis=-1)], excess, np.minimum(excess, -1e-12)), best


@dataclass(frozen=True)
class Judges:
    """Who judges a text.

    attributes: who is to err; tasks: whose answers are to stay; tags: of sentences, or None: they may change;
    guards: of (text, candidate) pairs -> bool; similarity: of such pairs -> number, for `choose: similarity`.
    """

    attributes: Sequence[Panel]
    tasks: Sequence[Panel]
    tags: Tags | None = None
    guards: Sequence[Asker] = ()
    similarity: Asker | None = None
