"""The local version of `vote_histogram`: the same cells and post-processing, but every person adds noise to their vote.

No curator is trusted: each of n people sends their cell through a protocol with a pure epsilon, and the counts are
debiased. There are K = m L cells, for m exemplars and L labels. A comparison with `vote_histogram` shows how much
utility a trusted curator adds. This mechanism is not for publication, since its noise is sampled in floating point. It
uses the one of three protocols whose counts have the smallest variance:

    unary encoding, optimised:  one bit per cell, which is 1 with probability 1/2 for the person's cell and
                                1 / (e^epsilon + 1) for other cells; variance n 4 e^epsilon / (e^epsilon - 1)^2 (Wang et
                                al. 2017).
    subset selection:           a set of d = K / (e^epsilon + 1) cells, which contains the person's cell with
                                probability p = d e^epsilon / (d e^epsilon + K - d), and each other cell with
                                probability q = (d - p) / (K - 1); variance n q (1 - q) / (p - q)^2 (Ye and Barg
                                2018).
    Hadamard response:          one of K' = 2^ceil(log2(K + 1)) outputs; with probability e^epsilon / (e^epsilon + 1)
                                the output is in the half that the cell's row of the Hadamard matrix selects;
                                variance n ((e^epsilon + 1) / (e^epsilon - 1))^2 (Acharya, Sun and Zhang 2019).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram

Array = NDArray[np.float64]

_PEOPLE = 1024  # people whose sets are sampled at a time


@component
class LocalVotes(VoteHistogram):
    """Local votes. Settings as in `vote_histogram`, but `most` must be 1, since each vote spends epsilon.

    The claim assumes that every label is listed, since a person with another label sends nothing.
    """

    control: ClassVar[bool] = True

    @model_validator(mode="after")
    def _one_vote(self) -> LocalVotes:
        if self.most != 1:
            raise ValueError(f"most must be 1, since each vote spends the whole epsilon, got {self.most}")
        return self

    def guarantee(self, epsilon: float) -> Guarantee:
        """Epsilon for the vote of each person (text for unit: document), against anyone who sees the sent values."""
        unit = Granularity.USER if self.unit == "user" else Granularity.DOCUMENT
        return Guarantee(epsilon, unit, Neighbours.ANY, public=", ".join(self.public_sources))

    def release(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> Release:
        """Return a release as in `CorpusMechanism`."""
        generator = noise.generator(0)
        table = self.votes(corpus, epsilon, generator.bytes(32))
        counts, variance = debiased(table.ravel(), epsilon, generator)
        return self.labelled(counts.reshape(table.shape), variance)


def debiased(counts: NDArray[np.int64], epsilon: float, generator: np.random.Generator) -> tuple[Array, float]:
    """Return unbiased estimates [K] of the counts by the best protocol, and the variance of an estimate."""
    n, variances = int(counts.sum()), variance_of_one(len(counts), epsilon)
    best = min(variances, key=variances.__getitem__)
    return _PROTOCOLS[best](counts, epsilon, generator), n * variances[best]


def variance_of_one(cells: int, epsilon: float) -> dict[str, float]:
    """Return the variance that each person adds to the count of a cell that is not theirs, by protocol."""
    odds = math.exp(epsilon)
    _, own, other = _subset(cells, epsilon)
    return {
        "unary encoding": 4 * odds / (odds - 1) ** 2,
        "subset selection": other * (1 - other) / (own - other) ** 2,
        "hadamard response": ((odds + 1) / (odds - 1)) ** 2,
    }


def _subset(cells: int, epsilon: float) -> tuple[int, float, float]:
    """Return the size of a set, and its probabilities to contain the person's cell and another cell."""
    odds = math.exp(epsilon)
    size = min(max(1, round(cells / (odds + 1))), cells - 1)
    own = size * odds / (size * odds + cells - size)
    return size, own, (own * (size - 1) + (1 - own) * size) / (cells - 1)


def unary_encoding(counts: NDArray[np.int64], epsilon: float, generator: np.random.Generator) -> Array:
    """Return estimates [K] by optimised unary encoding. Bits are independent, so their sums are binomial."""
    n, other = int(counts.sum()), 1 / (math.exp(epsilon) + 1)
    ones = generator.binomial(counts, 0.5) + generator.binomial(n - counts, other)
    return np.asarray((ones - n * other) / (0.5 - other), np.float64)


def subset_selection(counts: NDArray[np.int64], epsilon: float, generator: np.random.Generator) -> Array:
    """Return estimates [K] by subset selection, with one sampled set per person."""
    cells, people = len(counts), np.repeat(np.arange(len(counts)), counts)
    size, own, other = _subset(cells, epsilon)
    held = np.zeros(cells)
    for start in range(0, len(people), _PEOPLE):
        mine = people[start : start + _PEOPLE]
        rank = generator.random((len(mine), cells))
        within = generator.random(len(mine)) < own
        rank[np.arange(len(mine)), mine] = np.where(within, -1.0, 2.0)  # first, or last
        held += np.bincount(np.argpartition(rank, size - 1, axis=1)[:, :size].ravel(), minlength=cells)
    return (held - len(people) * other) / (own - other)


def hadamard_response(counts: NDArray[np.int64], epsilon: float, generator: np.random.Generator) -> Array:
    """Return estimates [K] by Hadamard response. Cell x selects the outputs with +1 in row x + 1 of the matrix."""
    cells, people = len(counts), np.repeat(np.arange(len(counts)), counts)
    width = 1 << cells.bit_length()
    signs = np.array(
        [[1 - 2 * ((row & column).bit_count() % 2) for column in range(width)] for row in range(1, cells + 1)]
    )
    inside = np.array([np.flatnonzero(row == 1) for row in signs])
    outside = np.array([np.flatnonzero(row == -1) for row in signs])
    probability = math.exp(epsilon) / (math.exp(epsilon) + 1)
    place, right = generator.integers(0, width // 2, len(people)), generator.random(len(people)) < probability
    sent = np.where(right, inside[people, place], outside[people, place])
    sums = signs @ np.bincount(sent, minlength=width)
    estimates: Array = sums / (2 * probability - 1)
    return estimates


_PROTOCOLS = {
    "unary encoding": unary_encoding,
    "subset selection": subset_selection,
    "hadamard response": hadamard_response,
}
