"""A test of a whole trade-off curve by many guesses from one run. The tested claim is f-DP for a single coin.

A claim is a **profile**: pairs (epsilon, delta) that are all valid at once, for neighbours in both orders. Let P_u(E)
be the probability of an event E for input u, and F(x) the minimum of e^epsilon x + delta over all pairs. The profile
says that P_u(E) <= F(P_u'(E)) for every event E and all neighbours u, u'. F is concave and increasing; in the notation
of f-differential privacy, F = 1 - f. One pair is (epsilon, delta)-differential privacy; many pairs approach the curve
of a Gaussian, or of a whole training run, from above.

**The bound** (Mahloujifar, Melis and Chaudhuri 2024, arXiv:2410.22235, with two candidates per coin). The mechanism
gets n independent fair coins u. From its output alone, the adversary guesses c coins of its choice, and W guesses are
right. Fix a coin i, the other coins, and t. Let E be the set of outputs for which i is guessed right and W > t. If coin
i is flipped, these outputs have a wrong guess of i and W >= t. By f-DP, the probability of E is at most F of its
probability after the flip. F is concave, so this inequality can be averaged over the coins and over i (Jensen). With
p_j = P(W = j), the average is

    sum over j > t of j p_j / n <= F(sum over j >= t of (c - j) p_j / n),        t = 0, ..., c - 1.

Write S_t = P(W >= t) and B_t = S_(t+1) + ... + S_c. The left side is (t S_(t+1) + B_t) / n, and the sum on the right is
((c - t) S_t - B_t) / n, so

    S_t >= (B_t + n G((t S_(t+1) + B_t) / n)) / (c - t),   G(x) = the smallest y with F(y) >= x.

The right side grows with every S_j for j > t. So a recursion gives the smallest S_0 compatible with P(W >= v) >= tau.
It starts with S_v = tau and S_j = 0 for j > v, and makes each S_t as small as this inequality and S_t >= S_(t+1) allow.
Once S_t = S_(t+1), all further values equal S_t, because t S_(t+1) + B_t and B_t - (c - t) S_(t+1) no longer change. If
S_0 exceeds 1, then P(W >= v) < tau. The **p-value** of v right guesses is the largest tau for which S_0 does not exceed
1. Apart from rounding, nothing is approximated.

For a pure epsilon (delta = 0), binomial laws attain every inequality, so the bound is hardly weaker than
`coins.p_value`. For a delta of about 1 / n the bound is much stronger. With 5,000 coins, 1,000 right guesses of 1,000
prove an epsilon of 5.80 at delta = 1/5,056 and 95 % confidence; `coins` proves 3.50. If delta is above the significance
level, nothing can be proved: with probability delta, a mechanism may reveal all coins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epsilometer.core.errors import UserError
from epsilometer.mechanisms.latents.shared.noise import gaussian_log_deltas

_PRECISION = 1e-6  # relative error of a p-value
_NOTHING = 1e-4  # a smaller strength counts as no evidence
_SMALLEST = -600.0  # logarithm of the smallest p-value that is computed


@dataclass(frozen=True)
class Profile:
    """A claim for neighbours in both orders: `epsilons[i]`, in nats and at least 0, is valid with `deltas[i]`."""

    epsilons: Sequence[float]
    deltas: Sequence[float]

    def __post_init__(self) -> None:
        if not len(self.epsilons) or len(self.epsilons) != len(self.deltas):
            raise UserError(
                f"a profile needs equally many deltas and epsilons, at least one of each, got {len(self.deltas)} and "
                f"{len(self.epsilons)}",
                "EPS-A132",
            )
        for epsilon, delta in zip(self.epsilons, self.deltas, strict=True):
            if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
                raise UserError(
                    f"a profile needs finite epsilons >= 0 with deltas in [0, 1], got epsilon {epsilon}, delta {delta}",
                    "EPS-A133",
                )

    @cached_property
    def lines(self) -> tuple[list[float], list[float], list[float]]:
        """Starts, slopes and deltas of the lines (x - delta) e^-epsilon that are highest for some x.

        G(x), the smallest y >= 0 with F(y) >= x, is the maximum of 0 and the highest line at x.
        """
        lines = sorted(
            {(math.exp(-epsilon), float(delta)) for epsilon, delta in zip(self.epsilons, self.deltas, strict=True)},
            key=lambda line: (line[0], -line[1]),
        )
        starts: list[float] = []
        highest: list[tuple[float, float]] = []
        for slope, delta in lines:
            start = -math.inf
            while highest:
                flatter, its_delta = highest[-1]
                if slope > flatter:
                    start = (slope * delta - flatter * its_delta) / (slope - flatter)
                    if start > starts[-1]:
                        break
                highest.pop()
                starts.pop()
                start = -math.inf
            highest.append((slope, delta))
            starts.append(start)
        return starts, [line[0] for line in highest], [line[1] for line in highest]


def gaussian(mu: float) -> Profile:
    """Return the profile of N(0, 1) against N(mu, 1).

    This curve is exact for trainings with full batches, and approximate for sampled batches.
    """
    epsilons = np.linspace(0, mu * (mu / 2 + 9), 1000)  # delta is below 1e-19 at the last epsilon
    return Profile(epsilons.tolist(), np.exp(gaussian_log_deltas(epsilons, 1 / mu)).tolist())


@dataclass(frozen=True)
class Counts:
    """Counts of right guesses.

    A single pair (right, guesses) is tested at the whole level; several pairs must share it (Bonferroni).

    pairs: pairs (right, guesses), with numbers of guesses that were fixed beforehand.
    coins: the number of all coins in the run, guessed or not.
    """

    pairs: Sequence[tuple[int, int]]
    coins: int

    def refuting(self, claim: Profile, level: float) -> Counts | None:
        """Return the counts from the first pair on that refutes a claim at a level; None if no pair refutes it.

        Earlier pairs refute neither this claim nor a weaker claim, at this level or a smaller one.
        """
        for i, (right, guesses) in enumerate(self.pairs):
            if refuted(right, guesses, self.coins, claim, level=level):
                return Counts(self.pairs[i:], self.coins)
        return None


def refuted(right: int, guesses: int, coins: int, claim: Profile, *, level: float) -> bool:
    """Return True if, under a claim for one coin, at least `right` right guesses have a probability below the level."""
    starts, slopes, deltas = claim.lines
    ends = [*starts[1:], math.inf]
    reached, above, line = level, 0.0, 0  # S_(t+1), B_(t+1), and the index of the highest line
    for t in range(right - 1, -1, -1):
        above += reached
        share = (t * reached + above) / coins  # grows as t falls
        if share > 1:
            share = 1.0
        while share >= ends[line]:
            line += 1
        needed = (share - deltas[line]) * slopes[line]
        least = (above + coins * needed) / (guesses - t) if needed > 0 else above / (guesses - t)
        if least <= reached:  # all further S_t equal this one
            break
        reached = least
        if reached > 1:
            return True
    return reached > 1


def p_value(counts: Counts, claim: Profile) -> float:
    """Return the smallest p-value of any pair under a claim for one coin; at least e^-600.

    The result may be too large by a relative 1e-6, and is never too small.
    """
    low, high = _SMALLEST, 0.0
    if (left := counts.refuting(claim, 1.0)) is None:
        return 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if fewer := left.refuting(claim, math.exp(middle)):
            high, left = middle, fewer
        else:
            low = middle
    return math.exp(high)


def proved(counts: Counts, family: Callable[[float], Profile], *, level: float, error: float = 1e-6) -> float:
    """Return the largest strength whose claim some pair refutes at confidence 1 - level; 0 if no claim is refuted.

    The result is a lower bound on the strength of a mechanism of the family.

    family: maps a strength > 0, such as an epsilon or a mu, to its claim; a larger strength is a weaker claim.
    error: the relative error of the result; errors only make it smaller. A strength below 1e-4 is returned as 0.
    """
    low, high, left = 0.0, 1.0, counts
    while fewer := left.refuting(family(high), level):
        low, high, left = high, 2 * high, fewer
    while high - low > error * high and high > _NOTHING:
        middle = (low + high) / 2
        if fewer := left.refuting(family(middle), level):
            low, left = middle, fewer
        else:
            high = middle
    return low


def at_delta(delta: float) -> Callable[[float], Profile]:
    """Return the family of (epsilon, delta) claims at this delta, with epsilon as the strength."""
    return lambda epsilon: Profile([epsilon], [delta])
