"""Rows of the tables `EXACT` and `EXACT_CURVES` from the losses of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, VIOLATED, describe
from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.tail import TAIL
from epsilometer.auditing.exact_loss.all_pairs import ALL_PAIRS, Relative
from epsilometer.auditing.exact_loss.bracket import Bracket, guess_loss, guess_losses
from epsilometer.auditing.exact_loss.losses import LEVELS, PairLosses, Request
from epsilometer.auditing.exact_loss.pairs import Pairs, count_pairs
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.core.mechanism import law_of, releases

Array = NDArray[np.float64]
ALL, EQUAL = "all", "equal length"
ALPHA = 0.01  # error of an interval over all pairs
_AGREE = 1e-6  # largest disagreement, beyond both brackets, between delta at level 0 and the average loss


@dataclass(frozen=True)
class Group:
    """A group of pairs at one budget, which a row describes.

    number: the index of the budget in the request. places: int64 [n], indices of the group's pairs.
    """

    request: Request
    pairs: Pairs
    number: int
    name: str
    places: NDArray[np.int64]

    @property
    def weights(self) -> Array:
        """The weights of the group's pairs [n], which sum to 1."""
        weights = self.pairs.weights[self.places]
        return weights / weights.sum()

    @property
    def epsilon(self) -> float:
        """The budget."""
        return self.request.epsilons[self.number]

    @property
    def there(self) -> int:
        """The number of all pairs of texts in the corpus that belong to this group, compared or not."""
        return count_pairs(self.request.texts)[self.name == EQUAL]

    @property
    def trials(self) -> NDArray[np.int64] | None:
        """For each trial of the group, in order, the index of its pair in `places`; None without `pairs.trials`."""
        return self.pairs.trials_among(self.places)


def groups(request: Request, pairs: Pairs, number: int) -> Iterator[Group]:
    """Yield the group of all pairs, and the group of pairs of equal length if there are any."""
    for name, places in ((ALL, np.arange(len(pairs))), (EQUAL, np.flatnonzero(pairs.equal))):
        if len(places):
            yield Group(request, pairs, number, name, places=places)


def head(group: Group, average: Bracket[float], method: str) -> dict[str, Any]:
    """Return the columns that every row of `EXACT` has: the pairs, their average loss, its method, and the claim."""
    mechanism = group.request.mechanism
    guarantee = mechanism.guarantee(group.epsilon)
    return {
        "epsilon": stored(group.epsilon),
        "pairs": group.name,
        "compared": len(group.places),
        "there": group.there,
        "texts": len(np.unique(group.pairs.numbers[group.places])),
        "share": float(group.pairs.weights[group.places].sum()),
        "sees": law_of(mechanism),
        "released": law_of(mechanism) in releases(mechanism),
        "average": (average.low + average.high) / 2,
        "average_low": average.low,
        "average_high": average.high,
        "claim": describe(guarantee),
        "method": method,
        "error": 0.0 if math.isinf(average.low) else (average.high - average.low) / 2,
    }


def row(group: Group, losses: PairLosses) -> dict[str, Any]:
    """Return a row of `EXACT` from the losses of all pairs, without the relative epsilon."""
    pairs, places, weights = group.pairs, group.places, group.weights
    error = Bracket(losses.log_error.low[places], losses.log_error.high[places])
    each = guess_losses(error)
    middle = guess_loss(np.logaddexp(error.low, error.high) - math.log(2))
    worst = int(each.low.argmax())
    x, other = pairs.numbers[places[worst]]
    average = average_loss(error, weights, pairs.candidates)
    return {
        **head(group, average, losses.method),
        **of_all_pairs(group, error, average),
        **tail_of_all_pairs(group, losses),
        "median": quantile(middle, weights, 0.5),
        "q95": quantile(middle, weights, 0.95),
        "worst": float(middle[worst]),
        "worst_x": int(x),
        "worst_other": int(other),
        "above_4": len(np.unique(pairs.numbers[places[each.high > TAIL]])),
        **claim_checked(group, losses),
    }


def curve(group: Group, losses: PairLosses) -> list[dict[str, Any]]:
    """Return rows of `EXACT_CURVES` from the losses of all pairs."""
    weights, places = group.weights, group.places
    low, high = (np.minimum(weights @ delta[places], 1.0) for delta in (losses.delta.low, losses.delta.high))
    error = Bracket(*(float(weights @ np.exp(end[places])) for end in (losses.log_error.low, losses.log_error.high)))
    return curve_rows(group, Bracket(low, high), error, losses.larger_delta[places].max(axis=0))


def curve_rows(
    group: Group, delta: Bracket[Array], error: Bracket[float], worst_high: Array | None = None
) -> list[dict[str, Any]]:
    """Return rows of `EXACT_CURVES`: the mean delta at LEVELS, and the largest delta of any pair if that is known.

    error: the mean error of guessing between two texts, from which the average loss is computed. Delta at level 0 must
    equal 1 - 2 error (the total variation). Raises UserError otherwise, since delta or the error is then wrong.
    """
    if delta.high[0] < 1 - 2 * error.high - _AGREE or delta.low[0] > 1 - 2 * error.low + _AGREE:
        raise UserError(
            f"the curve of delta of {type(group.request.mechanism).__name__} at epsilon {group.epsilon:g} contradicts "
            f"its average loss: delta at level 0 is {delta.low[0]:.6g} to {delta.high[0]:.6g}, but the average implies "
            f"{1 - 2 * error.high:.6g} to {1 - 2 * error.low:.6g}; check that its laws sum to one, and if they do, "
            "report this as a bug",
            "EPS-A091",
        )
    of = {"epsilon": stored(group.epsilon), "pairs": group.name}
    worst = [None] * len(LEVELS) if worst_high is None else worst_high.tolist()
    columns = zip(LEVELS.tolist(), delta.low.tolist(), delta.high.tolist(), worst, strict=True)
    return [of | dict(zip(("level", "delta_low", "delta_high", "worst_high"), row, strict=True)) for row in columns]


def tail(curve_of_group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of delta at 4 nats, from the group's rows of `EXACT_CURVES`.

    An average loss hides a leak in few outputs: a mechanism that releases the text itself with probability .46 has an
    average loss of one nat, and a delta at 4 nats of .46. Under a pure epsilon of at most 4, delta at 4 nats is 0. No
    post-processing raises this delta.
    """
    (at,) = (row for row in curve_of_group if row["level"] == TAIL)
    return {"delta_at_4_low": at["delta_low"], "delta_at_4": at["delta_high"]}


def relative_row(relative: Relative) -> dict[str, Any]:
    """Return the columns of the relative epsilon."""
    x, other = relative.pair or (None, None)
    return {
        "relative_epsilon": relative.loss,
        "relative_method": relative.method,
        "witness_x": x,
        "witness_other": other,
        "witness": relative.witness,
    }


def average_loss(log_error: Bracket[Array], weights: Array, candidates: int = 2) -> Bracket[float]:
    """Return the loss of guessing the source among k texts, in nats, from ln of the errors of pairs with weights [n].

    For k = 2 this is the guess loss at the mean error e. Otherwise the error among k texts is between e and (k - 1) e.
    The lower bound e holds because an adversary who is also told two candidates, one of which is the source, still errs
    with probability e. The upper bound (k - 1) e holds because the error is at most the sum over pairs of 2 / k times
    the pair's error.
    """
    more = math.log(candidates - 1)
    with np.errstate(divide="ignore"):
        least, most = (float(np.logaddexp.reduce(part + np.log(weights))) for part in (log_error.low, log_error.high))
    most = min(most + more, math.log1p(-1 / candidates))
    least = min(least, most)
    low, high = (math.inf if math.isinf(e) else more + math.log1p(-math.exp(e)) - e for e in (most, least))
    return Bracket(max(low, 0.0), high)


def of_all_pairs(group: Group, log_error: Bracket[Array], average: Bracket[float]) -> dict[str, Any]:
    """Return the columns that bound the average over all pairs, and `method` if these bounds differ from `average`.

    log_error: ln of the error of each of the group's pairs [n]. Returns nothing for more than two candidates
    (`candidate_sets` compares them).
    """
    if group.pairs.sets is not None:
        return {}
    if (trials := group.trials) is None:
        return {"all_low": average.low, "all_high": average.high}
    every = over_all(log_error, trials, average, complete=len(group.places) == group.there)
    method = {} if every == average else {"method": f"exact, {len(group.places):,} of {group.there:,} pairs"}
    return {"all_low": every.low, "all_high": every.high, **method}


def tail_of_all_pairs(group: Group, losses: PairLosses) -> dict[str, Any]:
    """Return bounds on the mean delta at 4 nats over all pairs: a 99 % interval if pairs come from trials.

    Returns nothing for more than two candidates.
    """
    if group.pairs.sets is not None:
        return {}
    at = int(np.searchsorted(LEVELS, TAIL))
    low, high = (np.clip(end[group.places, at], 0.0, 1.0) for end in (losses.delta.low, losses.delta.high))
    if (trials := group.trials) is None:
        ends = float(group.weights @ low), float(group.weights @ high)
    else:
        ends = interval(low[trials], ALPHA)[0], interval(high[trials], ALPHA)[1]
        if len(group.places) == group.there:
            ends = max(ends[0], float(low.min())), min(ends[1], float(high.max()))
    return {"all_delta_at_4_low": ends[0], "all_delta_at_4": ends[1]}


def largest_tail(loss: float) -> float:
    """Return the largest delta at 4 nats of two laws with a pure loss of at most `loss` (randomised response)."""
    return 0.0 if loss <= TAIL else (1 - math.exp(TAIL - loss)) / (1 + math.exp(-loss))


def enumerated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the upper bounds of averages that the largest pure loss over all pairs gives; nothing if it is unknown.

    These bounds are certain, unlike the interval over sampled pairs.
    """
    if row.get("relative_method") != ALL_PAIRS:
        return {}
    loss = row["relative_epsilon"]
    highs = {"all_high": loss, "all_delta_at_4": largest_tail(loss)}
    return {name: min(high, math.inf if row.get(name) is None else row[name]) for name, high in highs.items()}


def over_all(
    log_error: Bracket[Array], trials: NDArray[np.integer], average: Bracket[float], complete: bool = False
) -> Bracket[float]:
    """Return a 99 % interval, in nats, of the average loss over all pairs that trials can draw.

    Twice the error of a trial's pair lies in [0, 1], and trials are independent, so betting bounds the mean for any
    number of trials. The interval proves a loss of at most about ln of the number of trials: one rare pair that is hard
    to distinguish could determine the average.

    log_error: ln of the errors of the distinct pairs [n]. trials: the index of each trial's pair. average: the average
    loss of these pairs. complete: True if these are all pairs. Then the mean error is between the smallest and the
    largest error, and if all errors are equal, the result is `average`.
    """
    least, most = (np.minimum(2 * np.exp(end[trials]), 1.0) for end in (log_error.low, log_error.high))
    low, high = interval(least, ALPHA)[0], interval(most, ALPHA)[1]
    if complete:
        low, high = max(low, float(least.min())), min(high, float(most.max()))
    with np.errstate(divide="ignore"):
        ends = guess_loss(np.log([high / 2, low / 2]))
    alike = complete and average.low - _AGREE <= ends[0] and ends[1] <= average.high + _AGREE
    return average if alike else Bracket(float(ends[0]), float(ends[1]))


def quantile(values: Array, weights: Array, share: float) -> float:
    """Return the smallest value v of values [n] for which the values up to v have at least this share of weights."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[min(int(np.searchsorted(reached, share - 1e-12)), len(values) - 1)]])


def claim_checked(group: Group, losses: PairLosses) -> dict[str, Any]:
    """Return the columns of the claim: claimed (for the pair nearest to its claim), its delta, and the verdict.

    A claim with delta 0 is violated if a pure loss exceeds the claimed loss. Any other claim is violated if delta at
    the claimed loss exceeds the claim's delta.
    """
    places = group.places
    guarantee = group.request.mechanism.guarantee(group.epsilon)
    claims = group.request.claims[group.number][places]
    columns: dict[str, Any] = dict.fromkeys(("claimed", "claimed_delta", "delta_at_claim"))
    if guarantee is None:
        return columns | {"verdict": NO_CLAIM}
    columns["claimed_delta"] = guarantee.delta
    if guarantee.curve is not None:  # deltas at LEVELS can refute the curve, but not confirm it
        allowed = guarantee.curve.delta(LEVELS) * (1 + 1e-9) + 1e-12
        broken = bool((losses.delta.low[places] > allowed).any())
        return columns | {"verdict": VIOLATED if broken else NOT_CHECKED}
    covered = np.isfinite(claims)
    if not covered.any():
        return columns | {"verdict": NOT_CHECKED}
    at_claim = losses.delta_at_claim
    if at_claim is not None:
        columns["delta_at_claim"] = float(at_claim.high[places][covered].max())
    room = losses.room(group.request.claims[group.number], guarantee.delta)
    if room is None:
        return columns | {"verdict": NOT_CHECKED}
    least = int(room[places].argmin())
    broken = room[places][least] < 0
    return columns | {"claimed": float(claims[least]), "verdict": VIOLATED if broken else NOT_REFUTED}
