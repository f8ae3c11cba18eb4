"""Judges of an edited text: panels of classifiers, aims for their predictions, the tagger, and guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.in_step import Asker
from epsilometer.models.ledger import Ledger

Tags = Callable[[Sequence[tuple[str, ...]]], Sequence[tuple[str, ...]]]  # sentences as words -> their tags
_LEAST = 1e-300  # smaller probabilities are raised to this, so that logarithms are finite


@dataclass(frozen=True, eq=False)
class Panel:
    """The classifiers of one label, one of each kind, by their names in a ledger.

    enough: number of classifiers that must predict as intended.
    """

    ledger: Ledger
    names: Sequence[str]
    enough: int = 1

    def __call__(self, questions: Sequence[tuple[int, str]]) -> list[NDArray[np.float64]]:
        """Return log-probabilities [names, classes] for each question (number of a private text, text to classify)."""
        owners, texts = [owner for owner, _ in questions], [text for _, text in questions]
        rows = np.stack([self.ledger.probabilities(name, texts, owners) for name in self.names], axis=1)
        return list(np.log(np.maximum(rows, _LEAST)))


@dataclass(frozen=True)
class Aim:
    """The intended predictions of one attribute's classifiers for a text.

    away:   class that must not be predicted.
    toward: class that must be predicted.
    near:   logarithms of class shares, to which the log-probabilities must be close.
    margin: log-odds by which the aim must be reached; with `near`, the largest distance of log-probabilities.
    """

    away: int | None = None
    toward: int | None = None
    near: NDArray[np.float64] | None = None
    margin: float = 0.0

    def judge(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the nats by which the aim is exceeded (negative if missed), and a confidence, [n, kinds] each.

        rows: log-probabilities [n, kinds, classes].
        """
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
        # argmax predicts the first of equally likely classes, so an excess of 0 may still be a miss.
        return np.where(wanted[rows.argmax(axis=-1)], excess, np.minimum(excess, -1e-12)), best


@dataclass(frozen=True)
class Judges:
    """The judges of an edited text.

    attributes: panels of the attributes, whose predictions must reach the aim.
    tasks:      panels of the tasks, whose predictions must not change.
    tags:       function that tags sentences; None: tags may change.
    guards:     functions that map (text, candidate) pairs to True if the candidate is acceptable.
    similarity: function that maps (text, candidate) pairs to similarities, for `choose: similarity`.
    """

    attributes: Sequence[Panel]
    tasks: Sequence[Panel]
    tags: Tags | None = None
    guards: Sequence[Asker] = ()
    similarity: Asker | None = None
