"""Membership with a known law: models whose log-odds of an example's label are normal.

For an example x the log-odds are N(level_x, 1) under models not trained on x, and N(level_x + shift, 1) under models
trained on x. An attack with a single threshold does not know the levels. The best adversary knows the levels, and its
area under the curve is Phi(shift / sqrt 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.randomness import Noise
from epsilometer.studies.training.membership import Evidence


@dataclass(frozen=True)
class Toy:
    """The evidence on one target, and a mask [n] of the examples that the target was trained on."""

    evidence: Evidence
    inside: NDArray[np.bool_]


def toy(examples: int, references: int, shift: float, spread: float, seed: int = 0) -> Toy:
    """Return a target and references, each trained on half of the examples (references on both halves).

    Levels are N(0, spread^2).
    """
    rng = np.random.default_rng(seed)
    level = rng.normal(0, spread, examples)
    cuts = rng.permuted(np.tile(np.arange(examples) % 2 == 0, (references // 2 + 1, 1)), axis=1)
    members = np.concatenate([cuts, ~cuts[1:]])
    odds = level + shift * members + rng.normal(0, 1, members.shape)
    return Toy(evidence(odds[:1], odds[1:], members[1:]), members[0])


def evidence(
    target: NDArray[np.float64],
    references: NDArray[np.float64],
    members: NDArray[np.bool_],
    labels: NDArray[np.integer] | None = None,
    texts: Sequence[str] = (),
    answers: Callable[[Sequence[str]], NDArray[np.float64]] | None = None,
) -> Evidence:
    """Return evidence for two classes from log-odds of the labels: target [t, n], references [m, n].

    labels: [n], class 0 by default.
    """
    n = target.shape[1]
    labels = np.zeros(n, np.int64) if labels is None else labels

    def refused(texts: Sequence[str]) -> NDArray[np.float64]:
        raise AssertionError("this attack asks about no other text")

    return Evidence(
        texts=texts or [""] * n,
        labels=labels,
        targets=log_probabilities(target, labels),
        training_losses=np.zeros(len(target)),
        asked=np.arange(n),
        references=log_probabilities(references, labels),
        members=members,
        answers=answers or refused,
        noise=Noise.named(n, 0, "test"),
    )


def log_probabilities(odds: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return log-probabilities of both classes, [..., n, 2], from log-odds of the label, [..., n]."""
    of_label, of_other = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
    return np.where((labels == 0)[:, None], np.stack([of_label, of_other], -1), np.stack([of_other, of_label], -1))
