"""Verdicts: claims compared with measurements. Losses are in nats.

Each trial has its own claimed loss c: epsilon times the largest distance between two of its candidates, infinite if the
claim does not cover a pair. Under the claim an adversary guesses the source with probability at most
(e^c + (k - 1) delta) / (e^c + k - 1) (TeDA eq. 10 solved for the probability). The verdict tests the number of
successes against the sum of these bounds. An audit cannot prove privacy, so the verdicts are "violated" and "not
refuted". A claim that no outcome could have refuted is "not testable"; without any comparison the verdict is "not
checked".

The tests of an audit share its level alpha by the method of Tarone (1990, "A modified Bonferroni method for discrete
data", Biometrics 46). Let p* be the p-value that a test would have if every guess were right; p* is known before any
guess is made. Let K be the smallest m for which at most m tests have p* <= alpha / m. Only tests with p* <= alpha / K
can reject a claim. There are at most K such tests, and each rejects a true claim with probability at most alpha / K. So
if all claims are true, some claim is called violated with probability at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betainc

from epsilometer.auditing.estimation.counting import distinct
from epsilometer.auditing.estimation.successes import Prior, loss_at, success_bound
from epsilometer.auditing.trials.sampling import is_shared
from epsilometer.core.component import described
from epsilometer.core.curves import largest_success
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import WHOLE, Guarantee, Neighbours, at_budget
from epsilometer.core.mechanism import HasDistance, HasPublicTexts, Mechanism
from epsilometer.text.words import words

VIOLATED, NOT_REFUTED, NO_CLAIM = "violated", "not refuted", "no claim"
LARGEST_FOUND = "largest found"  # method of a check that compares the laws of a sample of the inputs
BY_LAW = "by its stated law"  # source of a verdict that assumes the mechanism's stated output distribution
NOT_TESTABLE, NOT_CHECKED = "not testable", "not checked"
_WEIGHT = [VIOLATED, NOT_REFUTED, NOT_TESTABLE, NOT_CHECKED, NO_CLAIM]  # the heaviest first


def rounding(claims: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return the largest excess of a computed loss over a claim, in nats, that floating-point rounding alone can cause.

    This excess is the same for all claims up to 1,000, so it does not decide which pair is nearest to its claim.
    """
    return np.maximum(1e-9, 1e-12 * np.asarray(claims))


def rounded_up(delta: float) -> float:
    """Return the largest value that rounding alone can give a computed delta under a claim of this delta."""
    return delta * (1 + 1e-9)


def trial_claims(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], candidates: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return [trials]: the largest claimed loss between two candidates of each trial; candidates: [trials, k] indices.

    Raises UserError if audited texts are among the mechanism's public texts.
    """
    refuse_public(mechanism, texts)
    guarantee, k = mechanism.guarantee(epsilon), candidates.shape[1]
    if guarantee is not None and guarantee.curve is not None:
        return np.full(len(candidates), loss_at(largest_success(guarantee.curve, k), k))
    if not isinstance(mechanism, HasDistance):  # all pairs have the same claim
        return np.broadcast_to(pair_claims(mechanism, epsilon, texts, candidates[:1, :2]), len(candidates))
    if guarantee is None:
        return np.full(len(candidates), np.inf)
    if is_shared(candidates):
        return np.full(len(candidates), _largest_claim(mechanism, epsilon, texts, candidates[0]))
    slots = list(combinations(candidates.T.astype(np.int64), 2))
    pairs = [np.minimum(left, right) * len(texts) + np.maximum(left, right) for left, right in slots]
    numbers, place = np.unique(np.concatenate(pairs), return_inverse=True)  # one number per pair sorts quickly
    claims = pair_claims(mechanism, epsilon, texts, np.stack(np.divmod(numbers, len(texts)), axis=1))
    return claims[place].reshape(len(slots), -1).max(axis=0)


def refuse_public(mechanism: Mechanism | None, texts: Sequence[str]) -> None:
    """Raise UserError if some of these texts are among a mechanism's public texts.

    Texts that differ only in case, white space and punctuation count as equal. Removing audited texts from the public
    ones would be no remedy, since private texts would then decide which texts are public.
    """
    if shared := count_public(mechanism, texts):
        raise UserError(
            f"{shared} of the {len(texts)} texts are also among the mechanism's public texts (up to case, white space "
            "and punctuation), so its claim does not cover them; give public texts that were collected separately",
            "EPS-A054",
        )


def count_public(mechanism: Mechanism | None, texts: Sequence[str]) -> int:
    """Return the number of these texts that are among a mechanism's public texts."""
    public_texts: Sequence[str] = mechanism.public_texts if isinstance(mechanism, HasPublicTexts) else ()
    public = set(map(_compared, public_texts))
    return sum(_compared(text) in public for text in texts) if public else 0


def _compared(text: str) -> str:
    """Return the words of a text, or the text itself if it has none."""
    return " ".join(words(text)) or text


def _largest_claim(mechanism: Mechanism, epsilon: float, texts: Sequence[str], numbers: NDArray[np.integer]) -> float:
    """Return the largest claim between any two of these texts, computed text by text to save memory."""
    largest = 0.0
    for i in range(len(numbers) - 1):
        others = numbers[i + 1 :]
        pairs = np.stack([np.full(len(others), numbers[i]), others], axis=1)
        largest = max(largest, float(pair_claims(mechanism, epsilon, texts, pairs).max()))
        if largest == math.inf:
            break
    return largest


def pair_claims(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], pairs: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return [n]: the claimed loss between the texts of each pair; pairs: [n, 2] indices. Infinite without a claim.

    The claimed loss holds at the claim's delta, and is infinite if the claim is a curve. A claim for whole texts is the
    same for all pairs. Raises UserError for negative or NaN distances, and for a wrong number of distances.
    """
    guarantee = mechanism.guarantee(epsilon)
    if guarantee is None or guarantee.curve is not None:
        return np.full(len(pairs), np.inf)
    if not isinstance(mechanism, HasDistance):
        whole = guarantee.granularity in WHOLE and guarantee.metric is None
        if whole and guarantee.neighbours is Neighbours.SAME_LENGTH:
            raise UserError(
                f"{type(mechanism).__name__} has a claim for texts of equal length, but no method that compares "
                "lengths; add `distance(texts, pairs, epsilon)` that is 1 for equal lengths and infinite otherwise",
                "EPS-A055",
            )
        return np.full(len(pairs), guarantee.epsilon if whole else np.inf, np.float64)
    distance = _distances(mechanism, epsilon, texts, pairs)
    if len(wrong := np.flatnonzero(~(distance >= 0))):
        raise UserError(
            f"distance returns {distance[wrong[0]]} for the inputs {pairs[wrong[0]].tolist()} (counted from 0)"
            f"{at_budget(epsilon)}; it must be a number >= 0, infinite if the claim does not cover the pair",
            "EPS-A056",
        )
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(distance), np.inf, guarantee.epsilon * distance)


def guess_claims(
    mechanism: Mechanism, epsilon: float, texts: Sequence[str], pairs: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return [n]: the claimed loss of guessing between two texts: `pair_claims`, or a curve's loss at delta 0."""
    guarantee = mechanism.guarantee(epsilon)
    if guarantee is None or guarantee.curve is None:
        return pair_claims(mechanism, epsilon, texts, pairs)
    return np.full(len(pairs), loss_at(largest_success(guarantee.curve, 2), 2))


def _distances(
    mechanism: HasDistance, epsilon: float, texts: Sequence[str], pairs: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return [n]: the mechanism's distance for each pair [n, 2]."""
    answer: object = mechanism.distance(texts, pairs, epsilon)
    shown = described(answer)
    try:
        distances = np.asarray(answer, np.float64)
    except (TypeError, ValueError):  # not numbers
        distances = np.empty(())
    if distances.shape == (len(pairs),):
        return distances
    if distances.ndim:
        shown = f"an array of shape {distances.shape}"
    raise UserError(
        f"distance of {type(mechanism).__name__} returns {shown}; return an array of {len(pairs)} distances, one per "
        "pair of texts",
        "EPS-A057",
    )


def check_distances(mechanism: Mechanism, epsilons: Sequence[float], texts: Sequence[str]) -> None:
    """Raise UserError if the mechanism returns an invalid distance between the first text and the last."""
    ends = np.array([[0, len(texts) - 1], [len(texts) - 1, 0]])
    for epsilon in epsilons:
        pair_claims(mechanism, epsilon, texts, ends)


def loss_at_delta(left: NDArray[np.float64], right: NDArray[np.float64], delta: float) -> float:
    """Return the smallest c >= 0 with P(S) <= e^c P'(S) + delta for every set S, up to rounding.

    left, right: P and P' [outputs]. Returns infinity if no c suffices. Only sets S that consist of the outputs with the
    largest ratios P / P' are compared; no other set needs a larger c.
    """
    delta = rounded_up(delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(left > 0, left / right, 0.0), kind="stable")
        here, there = left[order].cumsum(), right[order].cumsum()
        losses = np.log(np.maximum(here - delta, 0.0)) - np.log(there)
    return max(0.0, float(np.where(here > delta, losses, 0.0).max()))


def expected_successes(claims: NDArray[np.float64], candidates: int, delta: float, prior: Prior | None = None) -> float:
    """Return the largest expected number of successes that the trials' claims allow."""
    losses, counts = distinct(claims)
    return float(sum(n * success_bound(c, candidates, delta, prior) for c, n in zip(losses, counts, strict=True)))


def p_value(successes: int, trials: int, expected: float) -> float:
    """Return the largest probability of at least this number of successes under the claim.

    expected: the largest mean number of successes under the claim. The successes are a sum of independent Bernoulli
    variables with different means. For counts of at least the mean + 1, a binomial variable with the same mean has the
    heavier tail (Hoeffding 1956, "On the distribution of the number of successes in independent trials", theorem 4).
    For counts below the mean + 1 the result is 1.
    """
    if successes < expected + 1:
        return 1.0
    # P(B >= s) of a binomial B is a regularised incomplete beta function.
    return float(betainc(successes, trials - successes + 1, min(1.0, expected / trials)))


def smallest_p_value(trials: int, expected: float) -> float:
    """Return p*: the p-value if every guess were right."""
    return p_value(trials, trials, expected)


def divisor(smallest: Sequence[float], alpha: float) -> int:
    """Return K, the divisor of alpha (Tarone 1990); 1 without tests. smallest: p* of every test of the audit."""
    ordered = np.sort(np.asarray(smallest, np.float64))
    k = 1
    while np.searchsorted(ordered, alpha / k, side="right") > k:
        k += 1
    return k


def verdict(p: float, level: float, smallest: float = 0.0) -> str:
    """Return violated if the p-value is at most the level, not testable if even p* is above it, else not refuted."""
    if smallest > level:
        return NOT_TESTABLE
    return VIOLATED if p <= level else NOT_REFUTED


def refutable(
    trials: int, covered: int, candidates: int, delta: float, level: float, prior: Prior | None = None
) -> float:
    """Return the largest claimed loss, in nats, that would be refuted at this level if every guess were right.

    covered: the number of trials that the claim covers, each with the same claimed loss. The claim is assumed to allow
    a right guess in every other trial. Returns 0 if even a claim of 0 would not be refuted.
    """
    if not covered:
        return 0.0
    # (1 - covered (1 - q) / trials)^trials = level, for the success probability q that the claim allows.
    allowed = 1 + trials * math.expm1(math.log(level) / trials) / covered
    return loss_at(allowed, candidates, delta, prior) if allowed > 0 else 0.0


def trials_needed(allowed: float, level: float) -> int | None:
    """Return the fewest trials, all with right guesses, that refute a claim at a level; None if no number does.

    allowed: the mean share of right guesses that the claim allows.
    """
    return None if allowed >= 1 else max(1, math.ceil(math.log(level) / math.log(allowed)))


def describe(guarantee: Guarantee | None) -> str:
    """Return a claim in words, for tables."""
    return guarantee.describe() if guarantee else NO_CLAIM


def overall(estimates: pl.DataFrame, claims: pl.DataFrame, exact: pl.DataFrame) -> pl.DataFrame:
    """Return one verdict per claim, from the audit, the worst-case check and the exact loss of texts together.

    estimates, claims, exact: schemas `ESTIMATES`, `CLAIMS` and `EXACT`. A claim is violated if one of these tables
    violates it, and otherwise not refuted if one of them tested it. Otherwise the verdict is not testable, not checked
    or no claim, in this order.
    Returns a row per mechanism and epsilon: mechanism, epsilon, claim, verdict and
    by:     the sources of the verdict, joined by "and": the audit, draws, a check of laws, or an exact loss; null if
            nothing could be tested.
    reason: why a claim is not testable or not checked, which leaks the draws could miss, or evidence against the stated
            noise; otherwise null.
    """
    claim = ["mechanism", "epsilon"]
    most = pl.col("refutable").max().over(claim)
    none, some = "the audit met no pair of texts that the claim covers", "the audit could refute claims up to {} nats"
    untested = pl.when(most > 0).then(pl.format(some, most.round(2))).otherwise(pl.lit(none))
    audited = estimates.select(
        *claim, "claim", "verdict", by=pl.lit("audit"), reason=pl.when(verdict=NOT_TESTABLE).then(untested)
    )
    by = (
        pl.when(pl.col("draws").is_not_null())
        .then(pl.lit("draws"))
        .when(method=LARGEST_FOUND)
        .then(pl.lit(f"check of some inputs {BY_LAW}"))
        .otherwise(pl.lit(f"exact check {BY_LAW}"))
    )
    by_loss = (  # a text computed from latents may have a smaller loss than the latents
        pl.when(pl.col("released").fill_null(True))
        .then(pl.lit(f"exact loss {BY_LAW}"))
        .otherwise(pl.lit(f"exact loss of its latents {BY_LAW}"))
    )
    checked = claims.select(*claim, "claim", "verdict", by=by, reason="reason")
    computed = exact.select(*claim, "claim", "verdict", by=by_loss, reason=pl.lit(None, pl.String))
    return (
        pl.concat([audited, checked, computed])
        .with_columns(weight=pl.col("verdict").replace_strict(_WEIGHT, range(len(_WEIGHT)), return_dtype=pl.Int64))
        .filter(pl.col("weight") == pl.col("weight").min().over(claim))
        .group_by(claim, maintain_order=True)
        .agg(
            pl.col("claim", "verdict").first(),
            by=pl.col("by").unique(maintain_order=True).str.join(" and "),
            reason=pl.col("reason").drop_nulls().unique(maintain_order=True).str.join("; ").replace("", None),
        )
        .with_columns(by=pl.when(pl.col("verdict").is_in([VIOLATED, NOT_REFUTED])).then("by"))
        .sort(claim)
    )


def with_overall(table: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return a table with two new columns: `overall`, the verdict on each row's claim, and `overall_by`, its source.

    table: has the columns mechanism and epsilon. verdicts: from `overall`.
    """
    columns = verdicts.select("mechanism", "epsilon", overall="verdict", overall_by="by")
    return table.join(columns, on=["mechanism", "epsilon"], how="left", nulls_equal=True, maintain_order="left")
