"""Many guesses from one run, against a whole trade-off curve: what n coins prove of a mechanism that is f-DP for one.

A claim is a **profile**: pairs (epsilon, delta) that all hold at once for neighbours in both orders. It says of every
event S and of neighbours u, u' that P_u(S) <= F(P_u'(S)), where F(x), the least e^epsilon x + delta of all pairs, is
concave and increasing; F = 1 - f in the words of f-differential privacy. One pair is (epsilon, delta)-differential
privacy, and many approach the curve of a Gaussian or of a whole training run from above.

**The bound** (Mahloujifar, Melis and Chaudhuri 2024, arXiv:2410.22235, with two candidates a coin). n fair coins u go
into the mechanism, each by itself; from its output alone the adversary guesses c of them, whichever it picks, and W
are right. Fix a coin i, the others, and t, and let S be the event that i is guessed as it fell and W > t. Where i falls
the other way, the same outputs have i guessed wrongly and W >= t. So by f-DP, and as F is concave (Jensen) after
averaging over the coins and over i, with p_j = P(W = j),

    sum over j > t of j p_j / n <= F(sum over j >= t of (c - j) p_j / n),        t = 0, ..., c - 1.

Write S_t = P(W >= t) and B_t = S_(t+1) + ... + S_c. The left side is (t S_(t+1) + B_t) / n, and the sum on the right is
((c - t) S_t - B_t) / n, so

    S_t >= (B_t + n G((t S_(t+1) + B_t) / n)) / (c - t),   G(x) = the least y with F(y) >= x.

The right side grows with every S_j above t. The least S_0 that goes with P(W >= v) >= tau is therefore got from
S_v = tau and S_j = 0 above v, by taking each S_t as small as this and S_t >= S_(t+1) allow. Where that S_0 exceeds 1,
P(W >= v) < tau: the **p-value** of v right guesses is the largest tau that does not. No approximation is in this but
rounding.

For epsilon alone (delta = 0) binomial laws meet every inequality with equality, so that little is lost against
`coins.p_value`; with a delta of the size of 1 / n much is won. 1,000 of 1,000 guesses right among 5,000 coins prove
5.80 at delta = 1/5,056 and 95 %, by that bound 3.50. Where delta is above the level nothing is proved, nor can be: with
probability delta a mechanism may give all coins away.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epsilometer.core.errors import UserError
from epsilometer.mechanisms.latents.shared.noise import gaussian_log_delta

_PRECISION = 1e-6  # of a p-value
_NOTHING = 1e-4  # a strength that is no evidence
_SMALLEST = -600.0  # log of the least p-value that is told from 0


@dataclass(frozen=True)
class Profile:
    """What is claimed between neighbours in both orders: `deltas[i]` suffices at `epsilons[i]`, in nats, 0 or more."""

    epsilons: Sequence[float]
    deltas: Sequence[float]

    def __post_init__(self) -> None:
        if not len(self.epsilons) or len(self.epsilons) != len(self.deltas):
            raise UserError(
                "a profile needs as many deltas as epsilons and at least one of each, got "
                f"{len(self.deltas)} and {len(self.epsilons)}"
            )
        for epsilon, delta in zip(self.epsilons, self.deltas, strict=True):
            if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
                raise UserError(
                    f"a profile holds finite epsilons >= 0 with deltas in [0, 1], got epsilon {epsilon}, delta {delta}"
                )

    def least(self, share: float) -> float:
        """Returns G: the least y >= 0 at which F(y) reaches a share."""
        starts, slopes, deltas = self._envelope
        i = bisect_right(starts, share) - 1
        return max(0.0, (share - deltas[i]) * slopes[i])

    @cached_property
    def _envelope(self) -> tuple[list[float], list[float], list[float]]:
        """The lines (x - delta) e^-epsilon that are the highest anywhere: from where on, their slopes and deltas."""
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
    """Returns the profile of N(0, 1) against N(mu, 1), the law of full batches; sampled ones come near it."""
    epsilons = np.linspace(0, mu * (mu / 2 + 9), 1000)  # there delta is below 1e-19
    return Profile(epsilons.tolist(), [math.exp(gaussian_log_delta(float(one), 1 / mu)) for one in epsilons])


@dataclass(frozen=True)
class Counts:
    """How many guesses were right: pairs (right, guesses), of numbers of guesses that were fixed beforehand.

    coins: all that went into the run, guessed or not. What is said of several pairs holds for each of them, and for
    all together where the level is a share of theirs (Bonferroni).
    """

    pairs: Sequence[tuple[int, int]]
    coins: int

    def refute(self, claim: Profile, level: float) -> bool:
        """Whether any pair has a probability below the level under a claim for one coin."""
        return any(refuted(right, guesses, self.coins, claim, level=level) for right, guesses in self.pairs)


def refuted(right: int, guesses: int, coins: int, claim: Profile, *, level: float) -> bool:
    """Whether so many right guesses or more have a probability below the level under a claim for one coin."""
    reached, above = level, 0.0  # S_(t+1) and B_(t+1)
    for t in range(right - 1, -1, -1):
        above += reached
        needed = claim.least(min(1.0, (t * reached + above) / coins))
        reached = max(reached, (above + coins * needed) / (guesses - t))
        if reached > 1:
            return True
    return False


def p_value(counts: Counts, claim: Profile) -> float:
    """The least probability of any pair under a claim for one coin, at most 1e-6 of it too much; never below e^-600."""
    low, high = _SMALLEST, 0.0
    if not counts.refute(claim, 1.0):
        return 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if counts.refute(claim, math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


def proved(counts: Counts, family: Callable[[float], Profile], *, level: float, error: float = 1e-6) -> float:
    """The largest strength whose claim a pair refutes at confidence 1 - level, 0 where none is refuted.

    family: claims by their strength > 0 (an epsilon, a mu), each allowing more than those before it. So of whatever
    belongs to the family the strength is larger than this. error: of the result, as a share, always downwards; less
    than 1e-4 is taken for 0.
    """
    low, high = 0.0, 1.0
    while counts.refute(family(high), level):
        low, high = high, 2 * high
    while high - low > error * high and high > _NOTHING:
        middle = (low + high) / 2
        if counts.refute(family(middle), level):
            low = middle
        else:
            high = middle
    return low


def at_delta(delta: float) -> Callable[[float], Profile]:
    """The family of all that is (epsilon, delta)-private, by epsilon, which presumes no further shape."""
    return lambda epsilon: Profile([epsilon], [delta])
