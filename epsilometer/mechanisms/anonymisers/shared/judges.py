"""Judges of an edited text: panels of classifiers with an aim for each attribute, the tagger, and guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.in_step import Asker
from epsilometer.models.ledger import Ledger

Tags = Callable[[Sequence[tuple[str, ...]]], Sequence[tuple[str, ...]]]  # sentences as words -> their tags
_LEAST = 1e-300  # lower limit of a probability, so that its logarithm is finite


@dataclass(frozen=True, eq=False)
class Panel:
    """The classifiers of one label, of different kinds, by their names in a ledger.

    enough: how many of them must answer as intended.
    """

    ledger: Ledger
    names: Sequence[str]
    enough: int = 1

    def __call__(self, questions: Sequence[tuple[int, str]]) -> list[NDArray[np.float64]]:
        """Returns log-probabilities [names, classes] for each question: the number of its private text, and a text."""
        owners, texts = [owner for owner, _ in questions], [text for _, text in questions]
        rows = np.stack([self.ledger.probabilities(name, texts, owners) for name in self.names], axis=1)
        return list(np.log(np.maximum(rows, _LEAST)))


@dataclass(frozen=True)
class Aim:
    """The intended predictions of one attribute's classifiers for a text.

    away:   any class except this one.
    toward: this class.
    near:   log-probabilities close to these log-shares of the classes.
    margin: the log-odds by which they must err; with `near`, the largest distance of log-probabilities that may remain.
    """

    away: int | None = None
    toward: int | None = None
    near: NDArray[np.float64] | None = None
    margin: float = 0.0

    def judge(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns by how much the aim is exceeded, and the confidence, [n, kinds] each.

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
        # The first of equally likely classes is the prediction.
        return np.where(wanted[rows.argmax(axis=-1)], excess, np.minimum(excess, -1e-12)), best


@dataclass(frozen=True)
class Judges:
    """The judges of a text.

    attributes: the panels that should err.
    tasks:      the panels whose answers should stay.
    tags:       tags sentences; None if tags may change.
    guards:     take (text, candidate) pairs and return whether each passes.
    similarity: takes such pairs and returns a number for each, for `choose: similarity`.
    """

    attributes: Sequence[Panel]
    tasks: Sequence[Panel]
    tags: Tags | None = None
    guards: Sequence[Asker] = ()
    similarity: Asker | None = None
