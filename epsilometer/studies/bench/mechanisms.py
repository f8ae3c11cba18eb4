"""All mechanisms of the bench, in the order of the bench's table, each at one pair of inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from epsilometer.studies.bench import additive, broken, local, means, noisy_max, rappor, texts
from epsilometer.studies.bench import numeric_sparse_vector as numeric
from epsilometer.studies.bench import sparse_vector as sparse
from epsilometer.studies.bench.known import KnownMechanism, table
from epsilometer.studies.bench.law import Law
from epsilometer.studies.bench.sparse_vector import Threshold

_TEN, _HALVES = [1.0] * 10, [2.0] * 5 + [0.0] * 5
_SWAPPED = ([0.0] * 5 + [1.0] * 5, [1.0] * 5 + [0.0] * 5)
_ONE_FEWER = ([1.0] * 5, [0.0] + [2.0] * 4)
_GEOMETRIC, _PEOPLE, _COUNTS = 0.1, 5, (2, 1)  # for geometric noise: epsilon, largest count, counts of the two inputs
SIZES, EPSILONS = (2, 10, 100), (0.5, 1.0, 4.0)


@cache
def every() -> tuple[KnownMechanism, ...]:
    """Return all mechanisms of the bench.

    They come in this order: from DP-Sniper, from ldp-audit, with a delta, broken, without any leak, and ours on texts.
    """
    return (*sniper(), *protocols(), *with_delta(), *wrong(), *nothing(), *rewriters())


def sniper() -> Iterator[KnownMechanism]:
    """Yield the twenty mechanisms of DP-Sniper (eth-sri/dp-sniper ee087b2), at the pairs of its reference results."""
    laplace, ding = "Dwork et al., TCC 2006", "Ding et al., CCS 2018, algorithm {}"
    yield additive.laplace("Laplace", laplace, ([1], [2]), 10, claim=0.1)
    yield truncated_geometric()
    yield additive.laplace("NoisyHist1", ding.format(9), ([0, 1, 1, 1, 1], [1] * 5), 10, claim=0.1)
    yield additive.laplace("NoisyHist2", ding.format(10), ([0, 1, 1, 1, 1], [1] * 5), 0.1, claim=0.1)
    yield noisy_max.place("ReportNoisyMax1", 5, _ONE_FEWER, "laplace")
    yield noisy_max.place("ReportNoisyMax2", 6, _ONE_FEWER, "exponential")
    yield noisy_max.value("ReportNoisyMax3", 7, (0, 1), "laplace")
    yield noisy_max.value("ReportNoisyMax4", 8, (1, 2), "exponential")
    yield sparse.stopping("SVT1", 1, _SWAPPED, Threshold(0.5, scale=20, noise=40))
    yield sparse.stopping("SVT2", 2, _SWAPPED, Threshold(1, scale=20, noise=40))
    yield numeric.revealing("SVT3", (_TEN, _HALVES), Threshold(1, scale=20, noise=20))
    yield sparse.stopping("SVT4", 4, (_TEN, _HALVES), Threshold(1, scale=40, noise=40 / 3))
    yield sparse.noiseless("SVT5", ([0.0] + [2.0] * 9, _TEN))
    yield sparse.endless("SVT6", _SWAPPED, Threshold(1, scale=20, noise=20))
    yield rappor.one_time()
    yield rappor.instantaneous()
    yield additive.laplace("LaplaceParallel", laplace, ([1] * 20, [0] * 20), 200, claim=0.1)
    two = Threshold(1, scale=20, noise=40, stop=2), Threshold(1, scale=40, noise=40 / 3, stop=2)
    yield numeric.parallel("SVT34Parallel", (_TEN, _HALVES), *two)
    yield additive.laplace("PrefixSum", "Wang et al., PLDI 2019", ([1] * 10, [0] * 10), 10, claim=1.0, sums=True)
    yield numeric.numerical("NumericalSVT", (2, 1), Threshold(1, scale=30, noise=120, stop=2), scale=60)


def protocols() -> Iterator[KnownMechanism]:
    """Yield the five protocols of ldp-audit (hharcolezi/ldp-audit 5cd1c5d) at three domain sizes and three epsilons."""
    for name in local.PROTOCOLS:
        for k in SIZES:
            for epsilon in EPSILONS:
                yield local.protocol(name, k, epsilon)


def with_delta() -> Iterator[KnownMechanism]:
    """Yield mechanisms whose smallest epsilon at a positive delta is known."""
    yield additive.gaussian("Gaussian mu=1 delta=1e-5", 1.0, 1e-5)
    yield additive.gaussian("Gaussian mu=1 delta=.01", 1.0, 1e-2)
    yield additive.gaussian("Gaussian mu=2 delta=.01", 2.0, 1e-2)
    yield additive.laplace_with_delta("Laplace delta=.01", 1.0, 1e-2)


def wrong() -> Iterator[KnownMechanism]:
    """Yield mechanisms that leak more than they claim."""
    for epsilon in (0.01, 0.1):
        yield means.true_count("NonDPGaussian1", epsilon, "normal")
        yield means.true_count("NonDPLaplace1", epsilon, "laplace")
        yield means.noisy_scale(epsilon)
    yield broken.halved(1.0)
    yield broken.reused(1.0)
    yield broken.rare(1.0, 0.01)


def nothing() -> Iterator[KnownMechanism]:
    """Yield mechanisms that leak nothing."""
    yield broken.null("constant", 1)
    yield broken.null("uniform", 10)
    yield broken.null_scores()


def rewriters() -> Iterator[KnownMechanism]:
    """Yield our own mechanisms, on texts whose rewrites can all be listed."""
    yield texts.responses(2.0)
    for name in ("tem", "santext", "exponential", "custext"):
        yield texts.words(name, 2.0)


def truncated_geometric() -> KnownMechanism:
    """Return truncated geometric noise on a count, computed with integers (Balcer and Vadhan, algorithm 4.8).

    The mechanism's epsilon for a requested epsilon e is ln(1 + 2^-k), with k = ceil(ln(2 / e)). The probability of
    output z for count c falls by a factor of 2^k / (2^k + 1) with each step of z away from c.
    """
    k = math.ceil(math.log(2 / _GEOMETRIC))
    base, whole = 2**k + 1, (2 ** (k + 1) + 1) * (2**k + 1) ** (_PEOPLE - 1)

    def up_to(c: int) -> list[int]:
        """Return, for z = 0 to _PEOPLE, how many of the `whole` equally likely integers lead to an output <= z."""
        below = [2 ** (k * (c - z)) * base ** (_PEOPLE - (c - z)) for z in range(c)]
        above = [whole - 2 ** (k * (z - c + 1)) * base ** (_PEOPLE - 1 - (z - c)) for z in range(c, _PEOPLE)]
        return [*below, *above, whole]

    counts = [np.diff(np.array(up_to(c)), prepend=0) for c in _COUNTS]
    law = Law(counts[0] / whole, counts[1] / whole)

    def draw(which: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.searchsorted(up_to(_COUNTS[which]), rng.integers(1, whole + 1, count))

    claim = math.log1p(2.0**-k)
    origin = "Balcer and Vadhan, arXiv:1709.05396, algorithm 4.8"
    return KnownMechanism("TruncatedGeometric", origin, draw, table(law.losses), law=lambda: law, claim=claim)
