"""Lower bounds on any training's epsilon, from scores of canaries: `epsilometer.one_run`. Losses are in nats.

Before the training, a fair coin for each canary decides whether the training includes it (or which of its two versions
is included). Afterwards, every canary gets a score from the training's output; a larger score means that the
canary was likelier included. The adversary makes r guesses: "in" for the r / 2 canaries with the highest scores, and
"out" for the r / 2 with the lowest. It abstains on the other canaries.

The number r may be fixed beforehand. Otherwise several values of r are tried: the number of canaries, half of it, a
quarter, and so on. Each value is tested at an equal share of alpha (Bonferroni), and the best result counts. Ties are
broken by a separate random stream, independent of the coins. Each bound is proved at confidence 1 - alpha / 2:

- `steinke`: the epsilon at delta by Steinke, Nasr and Jagielski 2023 (`coins`), valid for any mechanism;
- `f-dp`: the epsilon at delta by Mahloujifar, Melis and Chaudhuri 2024 (`fdp`), valid for any mechanism. This bound is
  much larger than `steinke` for a delta near 1 / canaries;
- `gaussian`: the epsilon at delta of N(0, 1) against N(mu, 1), for the largest mu whose whole curve is refuted. This
  bound is larger still, but valid only if the audited mechanism has the curve of a Gaussian. A training with sampled
  batches has such a curve only approximately, and only with very many steps.

A claim's whole curve is tested. Such a test can refute claims that no bound on epsilon at one delta refutes.
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
from epsilometer.auditing.estimation import coins as steinke
from epsilometer.auditing.estimation.abstention import halves
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.shared.noise import gaussian_log_delta
from epsilometer.runtime.progress import note
from epsilometer.studies.training.one_run import fdp

STEINKE, FDP, GAUSSIAN = "steinke", "f-dp", "gaussian"
BOUNDS = {
    "method": pl.String,  # steinke, f-dp, or the assumed family of curves
    "canaries": pl.Int64,
    "guesses": pl.Int64,  # null if several numbers of guesses are tried
    "right": pl.Int64,  # number of right guesses; null if guesses is null
    "lower": pl.Float64,  # lower bound on epsilon at delta, in nats, at confidence 1 - alpha / 2; 0 means no evidence
    "ceiling": pl.Float64,  # the lower bound if every guess were right
    "delta": pl.Float64,
    "p_value": pl.Float64,  # p-value of the claimed curve; null without a claim
    "verdict": pl.String,  # on the claim
}
_UNFAIR = 1e-6  # a result with a smaller p-value does not come from fair coins
_ERROR = 1e-3  # relative error of a bound; errors only make it smaller


@dataclass(frozen=True)
class Judging:
    """Settings for judging guesses. Raises UserError for a delta or alpha outside its range.

    delta:   the delta of the bounds to prove.
    alpha:   the two-sided error probability; a lower bound uses half of it.
    guesses: the number of guesses if it is fixed beforehand; None tries several.
    tests:   the number of tests of claims, among which alpha is divided.
    """

    delta: float
    alpha: float = 0.01
    guesses: int | None = None
    tests: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise UserError(f"delta must be in [0, 1), got {self.delta}", "EPS-A134")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be in (0, 1), got {self.alpha}", "EPS-A135")

    def sizes(self, canaries: int) -> list[int]:
        """Return the numbers of guesses to try."""
        return halves(canaries) if self.guesses is None else [self.guesses]

    def level(self, counts: fdp.Counts) -> float:
        """Return the error probability allowed for each number of guesses."""
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
    """Return lower bounds on one example's epsilon, from scores of canaries: a row per method (`BOUNDS`).

    A lower bound of 0 means no evidence; it does not mean that the training is private.

    included, excluded: the scores of the canaries that were included, and of the others. Scores are larger for canaries
        that were likelier included. Examples: minus a canary's loss, or its gradient's inner product with a release. A
        fair coin must decide on each canary separately, and scores must depend only on the training's output.
    delta: the delta of the bounds.
    guesses: the number of guesses, fixed before the scores were seen. If None, several numbers are tried and the best
        result counts, with a correction.
    claim: pairs (epsilon, delta) that an accountant claims together.
    alpha: every lower bound holds with probability 1 - alpha / 2.
    seed: breaks ties.

    Raises UserError if scores are not numbers, or for a number of included canaries that is too unlikely with fair
    coins.
    """
    right = ordered(included, excluded, seed)
    if len(right) > 1 and len(np.unique(np.concatenate([included, excluded]))) == 1:
        raise UserError(
            "all canaries have the same score, which does not depend on inclusion; pass each canary's score by the "
            "trained model, such as minus its loss",
            "EPS-A136",
        )
    if guesses is not None and not 1 <= guesses <= len(right):
        raise UserError(f"guesses must be from 1 to the number of canaries, {len(right)}, got {guesses}", "EPS-A137")
    judging = Judging(delta, alpha, guesses)
    if delta and delta >= (level := alpha / 2 / len(judging.sizes(len(right)))):
        note(
            f"delta {delta:g} is not below the error allowed for each number of guesses, {level:.2g}, so no epsilon "
            "can be proved at this delta; fix the number of guesses, or set a larger alpha"
        )
    claimed = None if claim is None else fdp.Profile([pair[0] for pair in claim], [pair[1] for pair in claim])
    return pl.DataFrame(judged(right, judging, GAUSSIANS, claimed), schema=BOUNDS, orient="row")


def ordered(included: ArrayLike, excluded: ArrayLike, seed: int = 0) -> NDArray[np.bool_]:
    """Return whether each guess is right, [canaries], in the order in which guesses are made.

    The order is: highest score, lowest score, second highest, and so on. included, excluded, seed: as in `one_run`,
    which also lists the errors.
    """
    of = [_checked(included, "included"), _checked(excluded, "excluded")]
    if not len(of[0]) + len(of[1]):
        raise UserError("no canaries were given; pass the scores of included and of excluded canaries", "EPS-A138")
    share = binomtest(len(of[0]), len(of[0]) + len(of[1])).pvalue
    if share < _UNFAIR:
        raise UserError(
            f"{len(of[0])} canaries were included and {len(of[1])} excluded, which is very unlikely with fair coins; "
            "include each canary with probability 1/2, and pass the scores of all",
            "EPS-A139",
        )
    scores, coins = np.concatenate(of), np.repeat([True, False], [len(of[0]), len(of[1])])
    ties = Noise.named(1, seed, "one run", "ties").generator(0).permutation(len(scores))
    coins = coins[np.lexsort((ties, -scores))]
    right = np.empty(len(coins), bool)
    half = (len(coins) + 1) // 2
    right[::2], right[1::2] = coins[:half], ~coins[half:][::-1]
    if binomtest(int(right.sum()), len(right), alternative="less").pvalue < _UNFAIR:
        note(
            "included canaries score lower than excluded ones; pass scores that are larger for included canaries, "
            "such as minus the loss"
        )
    return right


def _checked(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    numbers = np.asarray(scores, np.float64)
    if numbers.ndim != 1 or np.isnan(numbers).any():
        raise UserError(f"{name} must be a list of numbers without NaN, one per canary", "EPS-A140")
    return numbers


def judged(
    right: NDArray[np.bool_], judging: Judging, family: Family | None = None, claim: fdp.Profile | None = None
) -> list[dict[str, Any]]:
    """Return a row of `BOUNDS` for each method.

    right: as `ordered` returns it; family: the curves that the last method assumes; claim: the curve to test.
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
    """Return the p-value of a claimed curve and the verdict. every: the counts if all guesses were right."""
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
    """A family of curves, one per strength. The mechanism's curve is assumed to belong to it.

    profile: maps a strength > 0 to its curve.
    epsilon: maps a strength and a delta to the epsilon in nats.
    error:   the relative error of the proved strength; errors only make it smaller.
    """

    name: str
    profile: Callable[[float], fdp.Profile]
    epsilon: Callable[[float, float], float]
    error: float = _ERROR

    def prove(self, counts: fdp.Counts, judging: Judging) -> float:
        """Return the epsilon at delta of the strongest curve that is refuted; 0 if no curve is."""
        strength = fdp.proved(counts, self.profile, level=judging.level(counts), error=self.error)
        return self.epsilon(strength, judging.delta) if strength else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of N(0, 1) against N(mu, 1) at a delta; at least 0."""
    if mu <= 0 or gaussian_log_delta(0.0, 1 / mu) <= math.log(delta):
        return 0.0
    high = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)) + 1)
    return float(brentq(lambda epsilon: gaussian_log_delta(epsilon, 1 / mu) - math.log(delta), 0.0, high))


GAUSSIANS = Family(GAUSSIAN, fdp.gaussian, gaussian_epsilon)
