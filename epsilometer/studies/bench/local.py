"""Local protocols for frequencies, as in ldp-audit (Arcolezi and Gambs, VLDB 2024).

In effect, each of the five protocols releases a set of values: the value itself (GRR), a subset (SS), the bits that are
1 (SUE, OUE), or all values that the hash maps to the reported bit (BLH). All values except the two of the pair are
alike, so a set is recorded as three numbers: whether it holds the first, whether it holds the other, and how many more
values it holds: [n, 3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.law import Floats, Law

PROTOCOLS = ("GRR", "SS", "SUE", "OUE", "BLH")


@dataclass(frozen=True)
class Chances:
    """The law of the set that is drawn for one of two values.

    pair: [2, 2], the probability of each pair of answers: whether it holds its own value, whether it holds the other.
    more: [2, 2, k - 1], given these answers, the probability of each number of further values among the k - 2.
    """

    pair: Floats
    more: Floats


def chances(protocol: str, k: int, epsilon: float) -> Chances:
    """Return the law of the sets of a protocol over k values."""
    odds, rest = math.exp(epsilon), k - 2
    counts = np.arange(rest + 1)
    if protocol in ("GRR", "SS"):
        size = 1 if protocol == "GRR" else max(1, round(k / (odds + 1)))
        own = size * odds / (size * odds + k - size)
        also = np.array([size / (k - 1), (size - 1) / (k - 1)])  # if its own value is not in, and if it is
        pair = np.array([[(1 - own) * (1 - also[0]), (1 - own) * also[0]], [own * (1 - also[1]), own * also[1]]])
        held = np.add.outer(np.arange(2), np.arange(2))
        return Chances(pair, (counts == (size - held)[..., None]).astype(np.float64))
    own, foreign = {
        "SUE": (math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1), 1 / (math.exp(epsilon / 2) + 1)),
        "OUE": (1 / 2, 1 / (odds + 1)),
        "BLH": (odds / (odds + 1), 1 / 2),  # a random hash maps any other value to either bit
    }[protocol]
    pair = np.outer([1 - own, own], [1 - foreign, foreign])
    return Chances(pair, np.broadcast_to(binom.pmf(counts, rest, foreign), (2, 2, rest + 1)))


def protocol(name: str, k: int, epsilon: float) -> KnownMechanism:
    """Return a protocol as a mechanism on the first two of k values."""
    table = chances(name, k, epsilon)
    law = Law(table.pair.ravel(), table.pair.T.ravel())
    losses = law.losses.reshape(2, 2)
    draws = {"GRR": _responses, "SS": _subsets, "BLH": _hashed}
    draw = draws[name] if name in draws else partial(_bits, own=table.pair[1].sum(), foreign=table.pair[:, 1].sum())

    def sets(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        outputs = draw(count, rng, k=k, epsilon=epsilon)
        return outputs[:, [1, 0, 2]] if which else outputs

    def loss(outputs: NDArray[np.int64]) -> Floats:
        return losses[outputs[:, 0], outputs[:, 1]]

    origin = "Arcolezi and Gambs, VLDB 2024"
    return KnownMechanism(f"{name} k={k} epsilon={epsilon:g}", origin, sets, loss, law=lambda: law, claim=epsilon)


def _responses(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Return sets [n, 3] of generalised randomised response for value 0: the value, or another of the k."""
    keep = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    value = np.where(keep, 0, rng.integers(1, k, count))
    return np.stack([value == 0, value == 1, value > 1], axis=1).astype(np.int64)


def _subsets(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Return sets [n, 3] of subset selection for value 0: it is in with some probability, others fill the set."""
    odds = math.exp(epsilon)
    size = max(1, round(k / (odds + 1)))
    own = rng.random(count) < size * odds / (size * odds + k - size)
    left = size - own
    other = rng.random(count) < left / (k - 1)
    return np.stack([own, other, left - other], axis=1).astype(np.int64)


def _bits(
    count: int, rng: np.random.Generator, k: int, epsilon: float, own: float = 0.0, foreign: float = 0.0
) -> NDArray[np.int64]:
    """Return sets [n, 3] of unary encoding for value 0, which has a bit for each value."""
    more = rng.binomial(k - 2, foreign, count)
    return np.stack([rng.random(count) < own, rng.random(count) < foreign, more], axis=1).astype(np.int64)


def _hashed(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Return sets [n, 3] of binary local hashing for value 0.

    Every value's hash is a fair coin; the hash of the input is reported as it is, or flipped.
    """
    hashes, ones = rng.integers(0, 2, (2, count)), rng.binomial(k - 2, 0.5, count)
    keep = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + 1)
    reported = np.where(keep, hashes[0], 1 - hashes[0])
    return np.stack([hashes[0] == reported, hashes[1] == reported, np.where(reported, ones, k - 2 - ones)], axis=1)
