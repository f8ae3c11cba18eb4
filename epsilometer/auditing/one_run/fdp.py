"""Many guesses from one run, tested against a whole trade-off curve: the claim that a mechanism is f-DP for one coin.

A claim is a **profile**: pairs (epsilon, delta) that all hold at once for neighbours in both orders. It says that
P_u(S) <= F(P_u'(S)) for every event S and all neighbours u, u', where F(x), the least e^epsilon x + delta of all pairs,
is concave and increasing; F = 1 - f in the terms of f-differential privacy. One pair is (epsilon, delta)-differential
privacy; many pairs approach the curve of a Gaussian, or of a whole training run, from above.

**The bound** (Mahloujifar, Melis and Chaudhuri 2024, arXiv:2410.22235, with two candidates per coin). n independent
fair coins u go into the mechanism. From its output alone the adversary guesses c of its choice, and W of
the guesses are right. Fix a coin i, the other coins, and t, and let S be the event that i is guessed right and W > t.
If i falls the other way, the same outputs have i guessed wrongly and W >= t. So by f-DP, and because F is concave
(Jensen), averaging over the coins and over i gives, with p_j = P(W = j),

    sum over j > t of j p_j / n <= F(sum over j >= t of (c - j) p_j / n),        t = 0, ..., c - 1.

Write S_t = P(W >= t) and B_t = S_(t+1) + ... + S_c. The left side is (t S_(t+1) + B_t) / n, and the sum on the right is
((c - t) S_t - B_t) / n, so

    S_t >= (B_t + n G((t S_(t+1) + B_t) / n)) / (c - t),   G(x) = the least y with F(y) >= x.

The right side grows with every S_j above t. The least S_0 that is compatible with P(W >= v) >= tau is therefore
obtained by starting from S_v = tau and S_j = 0 above v, and taking each S_t as small as this inequality and
S_t >= S_(t+1) allow. If that S_0 exceeds 1, then P(W >= v) < tau: the **p-value** of v right guesses is the largest tau
for which it does not. Apart from rounding, nothing is approximated.

For a pure epsilon (delta = 0) binomial laws attain every inequality, so little is lost compared with `coins.p_value`;
with a delta of about 1 / n much is gained: 1,000 right guesses of 1,000, among 5,000 coins, prove 5.80 at
delta = 1/5,056 and 95 %, where that bound proves 3.50. If delta is above the level, nothing can be proved:
with probability delta a mechanism may give all coins away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epsilometer.core.errors import UserError
from epsilometer.mechanisms.latents.shared.noise import gaussian_log_delta

_PRECISION = 1e-6  # relative error of a p-value
_NOTHING = 1e-4  # a smaller strength counts as no evidence
_SMALLEST = -600.0  # ln of the smallest p-value that is distinguished from 0


@dataclass(frozen=True)
class Profile:
    """A claim for neighbours in both orders: `deltas[i]` suffices at `epsilons[i]`, which is in nats and at least 0."""

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
        """The lines (x - delta) e^-epsilon that are highest somewhere: the x where each starts, its slope, its delta.

        G(x), the least y >= 0 at which F(y) reaches x, is the largest of 0 and of the line at x.
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
    """Return the profile of N(0, 1) against N(mu, 1): the law of full batches, close to that of sampled ones."""
    epsilons = np.linspace(0, mu * (mu / 2 + 9), 1000)  # at the last of them delta is below 1e-19
    return Profile(epsilons.tolist(), [math.exp(gaussian_log_delta(float(epsilon), 1 / mu)) for epsilon in epsilons])


@dataclass(frozen=True)
class Counts:
    """Counts of right guesses: pairs (right, guesses), with numbers of guesses that were fixed beforehand.

    coins: the number of all coins in the run, guessed or not. A statement at some level holds for each pair by itself;
    for it to hold for all pairs at once, that level must be divided among them (Bonferroni).
    """

    pairs: Sequence[tuple[int, int]]
    coins: int

    def refuting(self, claim: Profile, level: float) -> Counts | None:
        """Return the pairs from the first that refutes a claim for one coin at the level; None if no pair does.

        The pairs before it refute no weaker claim, at this or any smaller level.
        """
        for i, (right, guesses) in enumerate(self.pairs):
            if refuted(right, guesses, self.coins, claim, level=level):
                return Counts(self.pairs[i:], self.coins)
        return None


def refuted(right: int, guesses: int, coins: int, claim: Profile, *, level: float) -> bool:
    """Return whether this many right guesses or more have a probability below the level under a claim for one coin."""
    starts, slopes, deltas = claim.lines
    ends = [*starts[1:], math.inf]
    reached, above, line = level, 0.0, 0  # S_(t+1), B_(t+1), and the number of the highest line
    for t in range(right - 1, -1, -1):
        above += reached
        share = (t * reached + above) / coins  # grows as t falls
        if share > 1:
            share = 1.0
        while share >= ends[line]:
            line += 1
        needed = (share - deltas[line]) * slopes[line]
        least = (above + coins * needed) / (guesses - t) if needed > 0 else above / (guesses - t)
        if least > reached:
            if least > 1:
                return True
            reached = least
    return reached > 1


def p_value(counts: Counts, claim: Profile) -> float:
    """Return the least probability of any pair under a claim for one coin; at least e^-600.

    It may be too large, by at most a share of 1e-6, but never too small.
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
    """Return the largest strength whose claim a pair refutes at confidence 1 - level; 0 if none is refuted.

    So a mechanism of the family has a larger strength.
    family: the claim for each strength > 0 (an epsilon, a mu); larger strengths allow more.
    error: the relative error of the result, always downwards. A strength below 1e-4 is returned as 0.
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
    """Return the family of (epsilon, delta) claims by epsilon, which assumes nothing else about the curve."""
    return lambda epsilon: Profile([epsilon], [delta])
