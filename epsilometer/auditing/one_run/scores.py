"""What the scores of canaries prove: `epsilometer.one_run`, for a training loop of anybody's. Losses are in nats.

Before a training, a fair coin for each canary decided whether it takes part (or which of its two versions does). After
it, every canary gets a score from what the training gave out, larger where it looks more as if it had taken part. The
adversary calls the r / 2 canaries of highest score in and the r / 2 of lowest score out, and is silent on the others.

r is fixed beforehand, or else the best of all canaries, half of them, a quarter, ... counts, at a share of alpha each
(Bonferroni). Ties are broken by a stream of their own, never by who was in. What is proved, each at confidence
1 - alpha / 2:

- `steinke`: the epsilon at delta by Steinke, Nasr and Jagielski 2023 (`coins`), whatever the mechanism is;
- `f-dp`: the same by Mahloujifar, Melis and Chaudhuri 2024 (`fdp`), whatever the mechanism is: with a delta
  near 1 / canaries it is by far the larger;
- `gaussian`: the epsilon at delta of the Gaussian mechanism whose whole curve is refuted: more, if the mechanism's
  curve is a Gaussian's, and worth nothing if it is not. A sampled training's is not, unless it has very many steps;

Whether a claim stands is a test of its whole curve, which refutes more than any bound on an epsilon at one delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import binomtest

from epsilometer.auditing.claims.verdicts import NO_CLAIM, verdict
from epsilometer.auditing.estimation.abstention import halves
from epsilometer.auditing.one_run import coins as steinke
from epsilometer.auditing.one_run import fdp
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.shared.noise import gaussian_log_delta
from epsilometer.runtime.progress import note

STEINKE, FDP, GAUSSIAN = "steinke", "f-dp", "gaussian"
BOUNDS = {
    "method": pl.String,  # steinke, f-dp, or the family of curves that is presumed
    "canaries": pl.Int64,
    "guesses": pl.Int64,  # null where several numbers of them are tried
    "right": pl.Int64,  # of them
    "lower": pl.Float64,  # epsilon at delta, nats, at confidence 1 - alpha / 2; 0 is no evidence
    "ceiling": pl.Float64,  # what as many canaries prove where every guess is right
    "delta": pl.Float64,
    "p_value": pl.Float64,  # of the claimed curve; null without a claim
    "verdict": pl.String,  # on it
}
_UNFAIR = 1e-6  # how unlikely a share of included canaries must be to be taken for a mistake
_ERROR = 1e-3  # of a bound, as a share, downwards


@dataclass(frozen=True)
class Judging:
    """How guesses are judged. delta: of the losses that are proved; alpha: of each; guesses: their number, if fixed.

    tests: of claims, among which alpha is shared.
    """

    delta: float
    alpha: float = 0.01
    guesses: int | None = None
    tests: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise UserError(f"delta must be in [0, 1), got {self.delta}")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}")

    def sizes(self, canaries: int) -> list[int]:
        """How many guesses are tried."""
        return halves(canaries) if self.guesses is None else [self.guesses]

    def level(self, counts: fdp.Counts) -> float:
        """The error of each of the numbers of guesses."""
        return self.alpha / 2 / len(counts.pairs)


def one_run(
    included: ArrayLike,
    excluded: ArrayLike,
    delta: float,
    *,
    guesses: int | None = None,
    claim: Sequence[tuple[float, float]] | None = None,
    alpha: float = 0.01,
    seed: int = 0,
) -> pl.DataFrame:
    """What canaries prove of the epsilon of one example, from the scores of those that took part and of the others.

    included, excluded: a score for each canary, larger where it looks more as if it took part: minus the loss, or a
    gradient's inner product with what was released. Each took part by a fair coin of its own (not exactly half of
    them), and the scores come from the training's output alone. guesses: how many to make, fixed before the scores
    were seen; else the best of several numbers, which is paid for. claim: pairs (epsilon, delta) that are claimed
    together, from an accountant; alpha: every lower bound holds with probability 1 - alpha / 2. seed: breaks ties.

    Returns a row a method (`BOUNDS`); 0 is no evidence, never private. Raises UserError for scores that are no numbers,
    and for a share of included canaries that no fair coins give (once in a million fair runs).
    """
    right = ordered(included, excluded, seed)
    if guesses is not None and not 1 <= guesses <= len(right):
        raise UserError(f"guesses must be from 1 to the number of canaries, {len(right)}, got {guesses}")
    judging = Judging(delta, alpha, guesses)
    if delta and delta >= (level := alpha / 2 / len(judging.sizes(len(right)))):
        note(
            f"delta {delta:g} is not below the error of a number of guesses, {level:.2g}, so that no epsilon at it can "
            "be proved of any mechanism; fix the number of guesses, or take a larger alpha"
        )
    claimed = None if claim is None else fdp.Profile([pair[0] for pair in claim], [pair[1] for pair in claim])
    return pl.DataFrame(judged(right, judging, GAUSSIANS, claimed), schema=BOUNDS, orient="row")


def ordered(included: ArrayLike, excluded: ArrayLike, seed: int = 0) -> NDArray[np.bool_]:
    """Returns [canaries]: whether each guess is right, the surest first: highest score, lowest, second highest, ..."""
    of = [_checked(included, "included"), _checked(excluded, "excluded")]
    if not len(of[0]) + len(of[1]):
        raise UserError("there are no canaries; give the scores of those that took part and of the others")
    share = binomtest(len(of[0]), len(of[0]) + len(of[1])).pvalue
    if share < _UNFAIR:
        raise UserError(
            f"{len(of[0])} canaries were included and {len(of[1])} were not: fair coins hardly ever fall so; include "
            "each with probability 1/2, and pass the scores of all"
        )
    scores, coins = np.concatenate(of), np.repeat([True, False], [len(of[0]), len(of[1])])
    ties = Noise.named(1, seed, "one run", "ties").generator(0).permutation(len(scores))
    coins = coins[np.lexsort((ties, -scores))]
    right = np.empty(len(coins), bool)
    half = (len(coins) + 1) // 2
    right[::2], right[1::2] = coins[:half], ~coins[half:][::-1]
    if binomtest(int(right.sum()), len(right), alternative="less").pvalue < _UNFAIR:
        note(
            "included canaries score lower than the others; scores must be larger where a canary took part, as minus "
            "the loss is"
        )
    return right


def _checked(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    numbers = np.asarray(scores, np.float64)
    if numbers.ndim != 1 or np.isnan(numbers).any():
        raise UserError(f"{name} must be a list of numbers, one a canary, none of them NaN")
    return numbers


def judged(
    right: NDArray[np.bool_], judging: Judging, family: Family | None = None, claim: fdp.Profile | None = None
) -> list[dict[str, Any]]:
    """Returns a row (`BOUNDS`) a method.

    right: as `ordered` gives it; family: of curves, by which the last method goes; claim: what the p-value is of.
    """
    sizes = judging.sizes(len(right))
    successes = np.cumsum(right)
    reached = [(int(successes[r - 1]), r) for r in sizes]
    every = [(r, r) for r in sizes]
    methods: dict[str, Callable[[fdp.Counts, Judging], float]] = {STEINKE: _by_steinke, FDP: _by_fdp}
    if family is not None and judging.delta:
        methods[family.name] = family.prove
    p, word = _tested(fdp.Counts(reached, len(right)), fdp.Counts(every, len(right)), claim, judging)
    return [
        {
            "method": name,
            "canaries": len(right),
            "guesses": None if judging.guesses is None else sizes[0],
            "right": None if judging.guesses is None else reached[0][0],
            "lower": prove(fdp.Counts(reached, len(right)), judging),
            "ceiling": prove(fdp.Counts(every, len(right)), judging),
            "delta": judging.delta,
            "p_value": p,
            "verdict": word,
        }
        for name, prove in methods.items()
    ]


def _tested(
    reached: fdp.Counts, every: fdp.Counts, claim: fdp.Profile | None, judging: Judging
) -> tuple[float | None, str]:
    """The p-value of a claimed curve and its verdict; every: the counts where all guesses are right."""
    if claim is None:
        return None, NO_CLAIM
    p, smallest = (min(1.0, len(of.pairs) * fdp.p_value(of, claim)) for of in (reached, every))
    return p, verdict(p, judging.alpha / judging.tests, smallest)


def _by_steinke(counts: fdp.Counts, judging: Judging) -> float:
    level, delta = judging.level(counts), judging.delta
    return max(steinke.proved(v, r, counts.coins, delta=delta, level=level) for v, r in counts.pairs)


def _by_fdp(counts: fdp.Counts, judging: Judging) -> float:
    return fdp.proved(counts, fdp.at_delta(judging.delta), level=judging.level(counts), error=_ERROR)


@dataclass(frozen=True)
class Family:
    """Curves by strength, of which the mechanism's is taken to be one.

    profile: the curve of a strength > 0; epsilon: that of a strength at a delta, in nats; error: of the strength that
    is proved, as a share, downwards.
    """

    name: str
    profile: Callable[[float], fdp.Profile]
    epsilon: Callable[[float, float], float]
    error: float = _ERROR

    def prove(self, counts: fdp.Counts, judging: Judging) -> float:
        """The epsilon at delta of the strongest curve that is refuted."""
        strength = fdp.proved(counts, self.profile, level=judging.level(counts), error=self.error)
        return self.epsilon(strength, judging.delta) if strength else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Returns the epsilon at a delta of N(0, 1) against N(mu, 1), 0 where less would do."""
    if mu <= 0 or gaussian_log_delta(0.0, 1 / mu) <= math.log(delta):
        return 0.0
    high = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)) + 1)
    return float(brentq(lambda epsilon: gaussian_log_delta(epsilon, 1 / mu) - math.log(delta), 0.0, high))


GAUSSIANS = Family(GAUSSIAN, fdp.gaussian, gaussian_epsilon)
