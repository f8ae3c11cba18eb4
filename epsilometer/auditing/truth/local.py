"""Local protocols for frequencies, and the attack that ldp-audit makes on them (Arcolezi and Gambs, VLDB 2024).

Every one of the five gives out, in effect, a set of values: the value itself (GRR), a subset (SS), the bits that are 1
(SUE, OUE), or what the hash maps to the reported bit (BLH). All values but the two of the pair are alike, so a set is
recorded as whether it holds the first, whether it holds the other, and how many more it holds: [n, 3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from epsilometer.auditing.truth.known import Known
from epsilometer.auditing.truth.law import Floats, Law

PROTOCOLS = ("GRR", "SS", "SUE", "OUE", "BLH")


@dataclass(frozen=True)
class Chances:
    """Of a set drawn for one of two values: own, foreign: [2, 2] P(holds own, holds the other's); more: [2, 2, k - 1].

    more: how many of the k - 2 values it holds beside, given that.
    """

    pair: Floats
    more: Floats


def chances(protocol: str, k: int, epsilon: float) -> Chances:
    """Returns [2, 2] whether it holds its own value and the other one, and [2, 2, k - 1] how many more."""
    odds, rest = math.exp(epsilon), k - 2
    counts = np.arange(rest + 1)
    if protocol in ("GRR", "SS"):
        size = 1 if protocol == "GRR" else max(1, round(k / (odds + 1)))
        own = size * odds / (size * odds + k - size)
        also = np.array([size / (k - 1), (size - 1) / (k - 1)])  # where its own is not in, and where it is
        pair = np.array([[(1 - own) * (1 - also[0]), (1 - own) * also[0]], [own * (1 - also[1]), own * also[1]]])
        held = np.add.outer(np.arange(2), np.arange(2))
        return Chances(pair, (counts == (size - held)[..., None]).astype(np.float64))
    own, foreign = {
        "SUE": (math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1), 1 / (math.exp(epsilon / 2) + 1)),
        "OUE": (1 / 2, 1 / (odds + 1)),
        "BLH": (odds / (odds + 1), 1 / 2),  # a random hash to one bit maps another value anywhere
    }[protocol]
    pair = np.outer([1 - own, own], [1 - foreign, foreign])
    return Chances(pair, np.broadcast_to(binom.pmf(counts, rest, foreign), (2, 2, rest + 1)))


def protocol(name: str, k: int, epsilon: float) -> Known:
    """The protocol at the first two of k values."""
    known = chances(name, k, epsilon)
    law = Law(known.pair.ravel(), known.pair.T.ravel())
    losses = law.losses.reshape(2, 2)
    draws = {"GRR": _responses, "SS": _subsets, "BLH": _hashed}
    draw = draws[name] if name in draws else partial(_bits, own=known.pair[1].sum(), foreign=known.pair[:, 1].sum())

    def sets(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        outputs = draw(count, rng, k=k, epsilon=epsilon)
        return outputs[:, [1, 0, 2]] if which else outputs

    def loss(outputs: NDArray[np.int64]) -> Floats:
        return losses[outputs[:, 0], outputs[:, 1]]

    origin = "Arcolezi and Gambs, VLDB 2024"
    return Known(f"{name} k={k} epsilon={epsilon:g}", origin, sets, loss, law=lambda: law, claim=epsilon)


def attack_rates(name: str, k: int, epsilon: float) -> tuple[float, float]:
    """How often ldp-audit's attack names the first value where it was the input, and where the other was.

    It names a member of the set at random, and any value where the set is empty.
    """
    known = chances(name, k, epsilon)
    own, other, more = np.indices(known.more.shape)
    size = own + other + more
    weight = known.pair[..., None] * known.more
    named = [np.where(size > 0, held / np.maximum(size, 1), 1 / k) for held in (own, other)]
    return float((weight * named[0]).sum()), float((weight * named[1]).sum())


def _responses(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Generalised randomised response of value 0: kept, or another of the k."""
    keep = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    value = np.where(keep, 0, rng.integers(1, k, count))
    return np.stack([value == 0, value == 1, value > 1], axis=1).astype(np.int64)


def _subsets(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Subset selection for value 0: in with its probability, the rest without replacement."""
    odds = math.exp(epsilon)
    size = max(1, round(k / (odds + 1)))
    own = rng.random(count) < size * odds / (size * odds + k - size)
    left = size - own
    other = rng.random(count) < left / (k - 1)
    return np.stack([own, other, left - other], axis=1).astype(np.int64)


def _bits(
    count: int, rng: np.random.Generator, k: int, epsilon: float, own: float = 0.0, foreign: float = 0.0
) -> NDArray[np.int64]:
    """Unary encoding of value 0: a bit a value."""
    more = rng.binomial(k - 2, foreign, count)
    return np.stack([rng.random(count) < own, rng.random(count) < foreign, more], axis=1).astype(np.int64)


def _hashed(count: int, rng: np.random.Generator, k: int, epsilon: float) -> NDArray[np.int64]:
    """Binary local hashing of value 0: the hash of every value is a fair coin; its own is kept or flipped."""
    hashes, ones = rng.integers(0, 2, (2, count)), rng.binomial(k - 2, 0.5, count)
    keep = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + 1)
    reported = np.where(keep, hashes[0], 1 - hashes[0])
    return np.stack([hashes[0] == reported, hashes[1] == reported, np.where(reported, ones, k - 2 - ones)], axis=1)
