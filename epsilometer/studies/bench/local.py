"""Local differential privacy protocols for frequencies, as in ldp-audit (Arcolezi and Gambs, VLDB 2024).

In effect, each of the five protocols releases a set of values. The set contains one value (GRR, generalised randomised
response), a fixed number (SS, subset selection), the values whose bits are 1 (SUE and OUE, unary encodings), or the
values that the hash maps to the reported bit (BLH, binary local hashing). The pair of inputs consists of two of the k
values; the k - 2 others are interchangeable. So n sets are stored as integers [n, 3]: whether the set contains the
first value, whether it contains the other value, and the number of further values in it.
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
    """The law of the set that a protocol releases for one value of a pair.

    pair: [2, 2], joint probabilities. The first index is 1 if the set contains the protocol's input, the second is 1 if
          it contains the other value of the pair.
    more: [2, 2, k - 1], the probability of each number of further values, 0 to k - 2, given these two indices.
    """

    pair: Floats
    more: Floats


def chances(protocol: str, k: int, epsilon: float) -> Chances:
    """Return the law of the set that a protocol over k values releases."""
    odds, rest = math.exp(epsilon), k - 2
    counts = np.arange(rest + 1)
    if protocol in ("GRR", "SS"):
        size = 1 if protocol == "GRR" else max(1, round(k / (odds + 1)))
        own = size * odds / (size * odds + k - size)
        # P(the set contains the other value), given that the set lacks the input, and given that it contains the input
        also = np.array([size / (k - 1), (size - 1) / (k - 1)])
        pair = np.array([[(1 - own) * (1 - also[0]), (1 - own) * also[0]], [own * (1 - also[1]), own * also[1]]])
        held = np.add.outer(np.arange(2), np.arange(2))
        return Chances(pair, (counts == (size - held)[..., None]).astype(np.float64))
    own, foreign = {
        "SUE": (math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1), 1 / (math.exp(epsilon / 2) + 1)),
        "OUE": (1 / 2, 1 / (odds + 1)),
        "BLH": (odds / (odds + 1), 1 / 2),  # a random hash maps each value to 0 or 1, equally likely
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
    """Return sets [n, 3] of generalised randomised response for value 0: each contains one of the k values."""
    keep = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    value = np.where(keep, 0, rng.integers(1, k, count))
    return np.stack([value == 0, value == 1, value > 1], axis=1).astype(np.int64)


def _subsets(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Return sets [n, 3] of subset selection for value 0. All sets have one size; random other values fill them."""
    odds = math.exp(epsilon)
    size = max(1, round(k / (odds + 1)))
    own = rng.random(count) < size * odds / (size * odds + k - size)
    left = size - own
    other = rng.random(count) < left / (k - 1)
    return np.stack([own, other, left - other], axis=1).astype(np.int64)


def _bits(
    count: int, rng: np.random.Generator, k: int, epsilon: float, own: float = 0.0, foreign: float = 0.0
) -> NDArray[np.int64]:
    """Return sets [n, 3] of unary encoding for value 0: the values whose noisy bits are 1.

    own: P(bit of value 0 is 1); foreign: P(bit of another value is 1).
    """
    more = rng.binomial(k - 2, foreign, count)
    return np.stack([rng.random(count) < own, rng.random(count) < foreign, more], axis=1).astype(np.int64)


def _hashed(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Return sets [n, 3] of binary local hashing for value 0.

    The hash of each value is a fair coin. The protocol reports the hash of value 0, flipped with some probability.
    """
    hashes, ones = rng.integers(0, 2, (2, count)), rng.binomial(k - 2, 0.5, count)
    keep = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + 1)
    reported = np.where(keep, hashes[0], 1 - hashes[0])
    return np.stack([hashes[0] == reported, hashes[1] == reported, np.where(reported, ones, k - 2 - ones)], axis=1)
