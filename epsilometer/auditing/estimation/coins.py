"""The epsilon of one coin, proved by guesses of n coins in one run of a mechanism.

Each of n fair coins independently decides one part of an input: whether a record is in a training set, or which of two
words is at a place of a text. The mechanism runs once. The adversary guesses coins from the whole output, and may
abstain for some coins. Given the other coins, let the output's laws under the two sides of a coin differ by at most
(epsilon, delta).

**Pure epsilon.** Given the output and the other coins, each side of a coin has a probability of at most p* = e^epsilon
/ (1 + e^epsilon). Let the adversary pick any r coins to guess. By induction over the coins, given the output, the
number of right guesses satisfies P(right >= v) <= P(Bin(r, p*) >= v) (Steinke, Nasr and Jagielski 2023,
arXiv:2305.08846, theorem 5.1). So the levels of `abstention` are valid here as well.

**With delta** (theorem 5.2 and appendix D of the same paper), if the number r of guesses is fixed beforehand:

    P(right >= v) <= P(B >= v) + 2 n delta max over i >= 1 of P(v > B >= v - i) / i,   B ~ Bin(r, p*).

As printed in the paper, this bound is wrong where it is near 1, which does not matter for tests. Example: for 2 coins
at epsilon 2 and delta .2 the bound says P(right >= 1) <= .9972. But consider a mechanism that reports both coins
correctly with probability .6, and otherwise reports exactly one of them wrongly (each with probability .2). Then at
least one guess is always right. The bound in `fdp` is valid everywhere, and is larger than the bound here only if delta
is almost 0.

Several runs, each on different coins, count as one run on all coins, since a coin affects only one output. Mahloujifar,
Melis and Chaudhuri 2024 (arXiv:2410.22235) prove a better bound for a claim with a delta or a whole trade-off curve:
see `fdp`. For a pure epsilon no better bound is possible, since randomised response attains this one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from epsilometer.auditing.estimation.abstention import guess_loss, halves, levels

_FAR = 12.0  # probabilities are first computed down to this many standard deviations below the mean


class Proved(NamedTuple):
    """The epsilon of one coin (`loss`, in nats) that `right` of `guesses` guesses prove; 0 without evidence."""

    loss: float
    guesses: int
    right: int


def unit_loss(right: NDArray[np.bool_], scores: NDArray[np.floating], alpha: float, delta: float = 0.0) -> Proved:
    """Return the loss that the guesses prove for one coin at confidence 1 - alpha / 2.

    right:  [coins], True for a right guess.
    scores: [coins], larger if the adversary is more confident, computed from the output alone. Only the most confident
    guesses count. Several numbers of guesses are tried, and the one that proves most is used (Bonferroni).
    """
    order, count = np.argsort(-scores, kind="stable"), len(right)
    successes = np.cumsum(right[order])
    sizes = halves(count) if delta else levels(scores[order])
    level = alpha / len(sizes)

    def loss(hits: int, guesses: int) -> float:
        if delta:
            return proved(hits, guesses, count, delta=delta, level=level / 2)
        return guess_loss(hits, guesses, count, 2, alpha=level)

    tried = [(int(successes[r - 1]), r) for r in sizes]
    return max(Proved(loss(hits, r), r, hits) for hits, r in tried)


def p_value(successes: int, guesses: int, coins: int, loss: float, delta: float = 0.0) -> float:
    """Return an upper bound of the probability of at least this many right guesses at this loss and delta per coin."""
    p = 1 / (1 + math.exp(-loss))
    pure = float(binom.sf(successes - 1, guesses, p))
    if not delta or not successes:
        return pure
    return min(1.0, pure + 2 * coins * delta * _largest_average(successes, guesses, p))


def _largest_average(successes: int, guesses: int, p: float) -> float:
    """Return the largest P(v > B >= v - i) / i over i >= 1, for v successes.

    The search goes down from v - 1. It ends below the mode of B, at the first probability that is less than the average
    so far, because averages only decrease from there on.
    """
    lowest = guesses * p - _FAR * math.sqrt(guesses * p * (1 - p))
    count = min(max(successes - math.floor(lowest), 1), successes)
    while True:
        likely = binom.pmf(np.arange(successes - 1, successes - 1 - count, -1), guesses, p)
        averages = np.cumsum(likely) / np.arange(1, count + 1)
        if count == successes or likely[-1] <= averages[-1]:
            return float(averages.max())
        count = min(2 * count, successes)


def proved(successes: int, guesses: int, coins: int, *, delta: float, level: float) -> float:
    """Return the epsilon of one coin, in nats, that this many right guesses prove at confidence 1 - level.

    guesses: a number fixed beforehand. coins: the number of all coins in the run, guessed or not.
    """

    def excess(loss: float) -> float:
        return p_value(successes, guesses, coins, loss, delta=delta) - level

    if excess(0.0) > 0:
        return 0.0
    high = 1.0
    while excess(high) <= 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9))
