"""Post-processing of noisy votes: computes public texts with labels and weights. It costs no budget.

Let H [m, L] be the noisy votes for m exemplars with unit vectors e_i, and L labels.

    plain:   takes, for each exemplar, the label with the most votes. If these votes exceed the noise's standard
             deviation, it returns the exemplar with this label, and with the votes as weight.
    ridge:   smooths H by the mean of a Gaussian process with the linear kernel <e_i, e_j>, and then works like plain,
             with threshold 0.
    spread:  computes the mean of a Gaussian process with the kernel exp(g (cos - 1)), g = 24, at all public texts. Each
             text gets the label with the largest mean. Then a ridge classifier is fitted to the labels, and predicts
             new ones, for ten rounds or until no label changes. All labels have equal weight in a fit; otherwise a
             label that noise makes rare would become rarer in each round.

Both processes are regularised by the ratio of noise and signal variance, (v + n / (m L)) / ((n / m)^2 / L), where v is
the variance of a cell's noise and n the noisy total. The weights of `spread` give each label its share of the noisy
totals; a total below the standard deviation of its noise, sqrt(m v), counts as that deviation. g, the number of rounds
and the ridge parameter were chosen on one half of the training texts of SNIPS (`benchmarks/release.py` measures on the
other half). They are constants, since private data must not choose them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PostProcessing = Literal["spread", "ridge", "plain"]

_SHARPNESS, _ROUNDS, _RIDGE = 24.0, 10, 3.0
_HEAVIEST = 20.0  # largest weight of a text in a fit
_BLOCK = 4096  # public texts whose kernel is computed at a time


@dataclass(frozen=True)
class VotesForTexts:
    """Noisy votes [m, L] for exemplars.

    counts:   [m, L], the noisy votes.
    places:   [m], indices of the exemplars among the public texts.
    vectors:  [p, d], unit vectors of the public texts.
    variance: variance of a cell's noise.
    """

    counts: Array
    places: NDArray[np.integer]
    vectors: Array
    variance: float

    @property
    def regularisation(self) -> float:
        """The ratio of noise variance to signal variance."""
        m, labels = self.counts.shape
        total = max(float(self.counts.sum()), math.sqrt(m * labels * self.variance), 1.0)
        return (self.variance + total / (m * labels)) / ((total / m) ** 2 / labels)


Labelled = tuple[
    NDArray[np.int64], NDArray[np.int64], Array
]  # indices of public texts, indices of labels, weights; [n] each


def plain(votes: VotesForTexts) -> Labelled:
    """Return the exemplars with a label that has more votes than the noise's standard deviation."""
    return _largest(votes.places, votes.counts, math.sqrt(votes.variance))


def ridge(votes: VotesForTexts) -> Labelled:
    """Return the exemplars with a label that has positive smoothed votes."""
    chosen = votes.vectors[votes.places]
    kernel = chosen @ chosen.T
    smooth = kernel @ np.linalg.solve(kernel + votes.regularisation * np.eye(len(chosen)), votes.counts)
    return _largest(votes.places, smooth, 0.0)


def spread(votes: VotesForTexts) -> Labelled:
    """Return all public texts, each with a label."""
    chosen = votes.vectors[votes.places]
    inner = np.linalg.solve(_kernel(chosen, chosen) + votes.regularisation * np.eye(len(chosen)), votes.counts)
    parts = (votes.vectors[start : start + _BLOCK] for start in range(0, len(votes.vectors), _BLOCK))
    labels = np.concatenate([(_kernel(part, chosen) @ inner).argmax(1) for part in parts])
    labels = self_trained(votes.vectors, labels, votes.counts.shape[1])
    totals = np.maximum(votes.counts.sum(0), max(1.0, math.sqrt(len(chosen) * votes.variance)))
    size = np.bincount(labels, minlength=len(totals))
    return np.arange(len(labels)), labels, (totals / np.maximum(size, 1))[labels]


def self_trained(vectors: Array, labels: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Return the labels [p] after rounds of self-training. A round fits a ridge classifier, and predicts all labels."""
    inputs, every = np.column_stack([vectors, np.ones(len(vectors))]), np.eye(count)
    for _ in range(_ROUNDS):
        size = np.maximum(np.bincount(labels, minlength=count), 1)
        weights = np.minimum(len(labels) / count / size, _HEAVIEST)[labels]
        gram, sums = _RIDGE * np.eye(inputs.shape[1]), np.zeros((inputs.shape[1], count))
        for start in range(0, len(inputs), _BLOCK):
            part = slice(start, start + _BLOCK)
            weighted = inputs[part] * weights[part, None]
            gram += weighted.T @ inputs[part]
            sums += weighted.T @ every[labels[part]]
        before, labels = labels, (inputs @ np.linalg.solve(gram, sums)).argmax(1)
        if (before == labels).all():
            break
    return labels.astype(np.int64)


def _kernel(some: Array, others: Array) -> Array:
    kernel: Array = np.exp(_SHARPNESS * (some @ others.T - 1))
    return kernel


def _largest(places: NDArray[np.integer], scores: Array, least: float) -> Labelled:
    top = scores.max(1)
    rows = np.flatnonzero(top > least)
    return places[rows].astype(np.int64), scores.argmax(1)[rows], top[rows]
