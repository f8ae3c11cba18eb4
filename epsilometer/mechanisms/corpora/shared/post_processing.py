"""Post-processing of noisy votes to public texts with labels and weights. It sees no private text, so it is free.

With noisy votes H [m, L] of exemplars with unit vectors e_i, and all public texts with vectors x_j:

    plain:   exemplar i, its label of most votes, weighted by these votes, where they exceed the noise's deviation.
    ridge:   the mean of a Gaussian process with the linear kernel <e_i, e_j> at the exemplars, i.e. a smoothed H.
    spread:  the mean of one with the kernel exp(g (cos - 1)), g = 24, at all public texts. Each gets the label of the
             largest mean, then the label that a ridge classifier fitted to these labels predicts, for ten rounds or
             until no label changes. In each fit all labels count equally: without that, noise makes a label rare, and
             each round makes it rarer.

The noise's variance over the signal's regularises both: (v + n / (m L)) / ((n / m)^2 / L), v the variance of a cell's
noise, n the noisy total. Weights of `spread` give each label its share of the noisy totals. A total below the deviation
of its noise, sqrt(m v), counts as that deviation. g, the rounds and the ridge were chosen on one half of the training
texts of SNIPS (`benchmarks/release.py` measures on the other). They are constants since nothing private may choose
them.
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
_HEAVIEST = 20.0  # weight of a label in a fit
_BLOCK = 4096  # public texts whose kernel is computed at a time


@dataclass(frozen=True)
class VotesForTexts:
    """Noisy votes [m, L] for exemplars, which are the public texts at `places` [m] with unit vectors [p, d].

    variance: of the noise of a cell.
    """

    counts: Array
    places: NDArray[np.integer]
    vectors: Array
    variance: float

    @property
    def regularisation(self) -> float:
        """The noise's variance over the signal's."""
        m, labels = self.counts.shape
        total = max(float(self.counts.sum()), math.sqrt(m * labels * self.variance), 1.0)
        return (self.variance + total / (m * labels)) / ((total / m) ** 2 / labels)


Labelled = tuple[
    NDArray[np.int64], NDArray[np.int64], Array
]  # places of public texts, label numbers, weights; [n] each


def plain(votes: VotesForTexts) -> Labelled:
    """Return the exemplars whose most frequent label has more votes than the noise's deviation."""
    return _largest(votes.places, votes.counts, math.sqrt(votes.variance))


def ridge(votes: VotesForTexts) -> Labelled:
    """Return the exemplars by their smoothed votes, where these are positive."""
    chosen = votes.vectors[votes.places]
    kernel = chosen @ chosen.T
    smooth = kernel @ np.linalg.solve(kernel + votes.regularisation * np.eye(len(chosen)), votes.counts)
    return _largest(votes.places, smooth, 0.0)


def spread(votes: VotesForTexts) -> Labelled:
    """Return all public texts with a label each."""
    chosen = votes.vectors[votes.places]
    inner = np.linalg.solve(_kernel(chosen, chosen) + votes.regularisation * np.eye(len(chosen)), votes.counts)
    parts = (votes.vectors[start : start + _BLOCK] for start in range(0, len(votes.vectors), _BLOCK))
    labels = np.concatenate([(_kernel(part, chosen) @ inner).argmax(1) for part in parts])
    labels = self_trained(votes.vectors, labels, votes.counts.shape[1])
    totals = np.maximum(votes.counts.sum(0), max(1.0, math.sqrt(len(chosen) * votes.variance)))
    size = np.bincount(labels, minlength=len(totals))
    return np.arange(len(labels)), labels, (totals / np.maximum(size, 1))[labels]


def self_trained(vectors: Array, labels: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Return the labels [p] after rounds of fitting a ridge classifier to them and predicting them again."""
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
