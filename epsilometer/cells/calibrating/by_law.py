"""The epsilon at which a mechanism's exact loss meets a target, in a project's cells or on your own texts.

No text is rewritten: `auditing.exact_loss` computes the loss at any epsilon. The compared pairs of texts come from the
same trials as in an audit's exact losses. By default only pairs with equal numbers of words are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.calibration.computed import FAR, WIDTH, Figure, Met, advice, further, meet
from epsilometer.auditing.calibration.sampled import FALLING, FOUND, OUTSIDE, Goal
from epsilometer.auditing.claims.verdicts import refuse_public
from epsilometer.auditing.exact_loss.bracket import guess_losses
from epsilometer.auditing.exact_loss.from_texts import TRIALS, chosen
from epsilometer.auditing.exact_loss.losses import FULL, Effort
from epsilometer.auditing.exact_loss.measuring import pair_losses, request
from epsilometer.auditing.exact_loss.pairs import Pairs, all_of, count_pairs, of_audit
from epsilometer.auditing.exact_loss.rows import average_loss, over_all
from epsilometer.auditing.trials.design import Design
from epsilometer.cells.params import TextsParams
from epsilometer.cells.reading import trials
from epsilometer.core.errors import LawError, UserError
from epsilometer.core.likelihood import shows_more
from epsilometer.core.mechanism import Mechanism, has_budget, law_of, releases
from epsilometer.project import cells
from epsilometer.project.paths import audited_texts
from epsilometer.project.sections import Cell
from epsilometer.runtime.progress import now_and_then

AVERAGE, WORST, DELTA = "average", "worst", "delta"
MEASURES = (AVERAGE, WORST, DELTA)


@dataclass(frozen=True)
class LossTarget:
    """The target of a calibration.

    measure: the figure that must equal `target`. AVERAGE is the mean guess loss over the pairs, in nats. WORST is the
    guess loss of the worst pair, in nats. DELTA is a probability: the worst pair's delta at a loss of `at` nats.

    Raises UserError for values outside their range.
    """

    measure: str
    target: float
    at: float | None = None

    def __post_init__(self) -> None:
        if self.measure == DELTA and self.at is None:
            raise UserError("measure delta needs a level in nats; give it as `at` (--at)", "EPS-S053")
        if self.measure != DELTA and self.at is not None:
            raise UserError(
                f"`at` (--at) is the level of measure delta, got {self.at} for {self.measure}; leave it out", "EPS-S054"
            )
        if self.measure not in MEASURES:
            raise UserError(f"measure must be one of {', '.join(MEASURES)}, got {self.measure!r}", "EPS-S055")
        if self.at is not None and not (0 <= self.at < math.inf):
            raise UserError(f"the level of delta must be a finite number >= 0, got {self.at}", "EPS-S056")
        most = 1.0 if self.measure == DELTA else math.inf
        if not 0 < self.target < most:
            rule = "between 0 and 1" if self.measure == DELTA else "a finite number > 0"
            raise UserError(f"the target must be {rule}, got {self.target}", "EPS-S057")


@dataclass(frozen=True)
class ComparedByLaw:
    """A mechanism, the pairs of texts between which its loss is computed, the precision, and the range to search.

    ends: the smallest and the largest epsilon of the search. effort: the precision.
    """

    mechanism: Mechanism
    texts: Sequence[str]
    pairs: Pairs
    ends: tuple[float, float]
    effort: Effort = FULL


def of_cell(params: TextsParams, cell: Cell, goal: Callable[[float, float], Goal], match: str | None) -> ComparedByLaw:
    """Return a cell's mechanism with the pairs of texts that stage `exact` compares.

    match: "none" to include pairs of texts with different numbers of words.
    """
    if cell.epsilons is None:
        raise UserError(
            f"{cell.mechanism} has no privacy budget, so there is none to calibrate; audit it instead", "EPS-S058"
        )
    built, texts = cells.build(params, cell), audited_texts(params, cell.dataset)
    refuse_public(built, texts)
    _refuse_more(built)
    pairs = of_audit(trials(cell.dataset), texts, params.exact.pairs, pairwise=True)
    wanted = goal(min(cell.epsilons), max(cell.epsilons))
    return ComparedByLaw(
        built, texts, _matched(pairs, match), (wanted.low, wanted.high), effort=Effort(params.exact.width)
    )


def _refuse_more(built: Mechanism) -> None:
    if shows_more(built):
        raise UserError(
            "the released text may show more of its source than the words that the law describes, so the law does not "
            "bound its loss; leave out `layout: kept` and `as_published`, or calibrate by attacks",
            "EPS-S059",
        )


def of_texts(
    built: Mechanism, texts: Sequence[str], goal: Goal, match: str | None, *, design: Design, measure: str
) -> ComparedByLaw:
    """Return a mechanism with the pairs of texts that `epsilometer.exact_loss` compares.

    The measures WORST and DELTA compare all pairs if there are at most TRIALS pairs.
    """
    if not has_budget(built):
        raise UserError(
            "this mechanism has no privacy budget, so there is none to calibrate; audit it instead", "EPS-S060"
        )
    _refuse_more(built)
    texts = api.distinct(texts)
    every = measure != AVERAGE and 0 < count_pairs(texts)[match != "none"] <= TRIALS
    pairs = all_of(texts) if every else chosen(texts, TRIALS, design)
    return ComparedByLaw(built, texts, _matched(pairs, match), (goal.low, goal.high))


def row(
    of: Mapping[str, Any], aim: LossTarget, compare: Callable[[], ComparedByLaw], label: str, width: float | None
) -> dict[str, Any]:
    """Return a row of the table that `calibrating.calibrate` returns: the entries of `of`, and a search's result.

    compare: returns the mechanism and its pairs. If `compare` raises UserError, the row has no epsilon, and its reason
    is the error's message. label: names the search in reports of progress. width: the search stops when high / low of
    the interval is at most this ratio; None for WIDTH.
    """
    nothing: dict[str, Any] = {"epsilon": None, "low": None, "high": None, "trials": 0}
    nothing |= {"by": aim.measure, "attacks": None}
    say = now_and_then()

    def watch(low: float, high: float) -> None:
        say(f"{label}: epsilon between {low:.3g} and {high:.3g}")

    try:
        compared = compare()
        at = figure(compared, aim)
        met = meet(at, aim.target, *compared.ends, width=width or WIDTH, watch=watch)
    except LawError:  # an invalid law must stop the command, instead of becoming the reason in a row
        raise
    except UserError as error:
        return {**of, "status": "not searched", **nothing, "reason": str(error)}
    sees = law_of(compared.mechanism)
    notes = [reason(met, aim, _still(met, aim.target, at))]
    if sees not in releases(compared.mechanism):
        notes.append(f"this is the loss of the {sees}, which are not released; the text loses at most as much")
    if met.best is not None:
        notes.append(among_drawn(compared, aim, met.best))
    interval = {"epsilon": met.best, "low": met.low, "high": met.high}
    said = "; ".join(filter(None, notes)) or None
    return {**of, "sees": sees, "status": met.status, **nothing, **interval, "reason": said}


def figure(compared: ComparedByLaw, aim: LossTarget) -> Figure:
    """Return a function from epsilon to a lower and an upper bound on the figure that must meet the target."""

    def at(epsilon: float) -> tuple[float, float]:
        question = request(compared.mechanism, compared.texts, [epsilon], compared.pairs, effort=compared.effort)
        if aim.at is not None:
            question = replace(question, claims=[np.full(len(compared.pairs), aim.at)])
        (losses,) = pair_losses(question)
        if aim.measure == DELTA:
            assert losses.delta_at_claim is not None
            return float(losses.delta_at_claim.low.max()), float(losses.delta_at_claim.high.max())
        if aim.measure == WORST:
            each = guess_losses(losses.log_error)
            return float(each.low.max()), float(each.high.max())
        average = average_loss(losses.log_error, compared.pairs.weights, compared.pairs.candidates)
        return average.low, average.high

    return at


def among_drawn(compared: ComparedByLaw, aim: LossTarget, epsilon: float) -> str | None:
    """Describe how pairs that were not compared may change the figure; None if they cannot."""
    pairs = compared.pairs
    there = count_pairs(compared.texts)[bool(pairs.equal.all())]
    some = f"compared: {len(pairs):,} of {there:,} pairs of texts"
    if aim.measure != AVERAGE or pairs.sets is not None:
        return f"{some}; another may lose more" if len(pairs) < there else None
    if pairs.trials is None:
        return None
    question = request(compared.mechanism, compared.texts, [epsilon], pairs, effort=compared.effort)
    (losses,) = pair_losses(question)
    average = average_loss(losses.log_error, pairs.weights)
    every = over_all(losses.log_error, pairs.trials, average, complete=len(pairs) == there)
    if every == average:
        return None
    interval = f"{every.low:.3g} to {every.high:.3g} nats (99 %)"
    return f"{some}; over all pairs that trials can sample, the average at epsilon {epsilon:.4g} is {interval}"


def _still(met: Met, target: float, figure: Figure) -> str | None:
    """Describe the figure at an epsilon far beyond the range (`further`), if the figure misses the target even there.

    Returns None if the figure may meet the target there, or if the law cannot be computed there.
    """
    if (far := further(met)) is None:
        return None
    try:
        low, high = figure(far)
    except UserError:
        return None
    return _figure((low, high), far) if (low > target if met.low == 0 else high < target) else None


def far_loss(compare: Callable[[], ComparedByLaw], target: float, epsilon: float) -> str | None:
    """Describe the average loss under the law at epsilon / FAR if even that loss exceeds the target.

    Returns None if the loss may meet the target there, if the mechanism states no law, or if the loss cannot be
    computed.
    """
    far = epsilon / FAR
    try:
        low, high = figure(compare(), LossTarget(AVERAGE, target))(far)
    except UserError:
        return None
    return _figure((low, high), far) if low > target else None


def _figure(value: tuple[float, float], epsilon: float) -> str:
    return f"{sum(value) / 2:.3g} at epsilon {epsilon:g}"


def reason(met: Met, aim: LossTarget, still: str | None = None) -> str | None:
    """Return why no epsilon was found, or a remark on the epsilon that was found; None if there is nothing to remark.

    still: the description of the figure far beyond the range, from `_still`.
    """
    what = {AVERAGE: "the average loss", WORST: "the worst pair's loss", DELTA: f"delta at {aim.at} nats"}[aim.measure]
    if met.status in (OUTSIDE, FALLING):
        ends = (min(met.figures), max(met.figures))
        return advice(met, what, *(_figure(met.figures[at], at) for at in ends), still=still)
    return None if met.status == FOUND else "the interval cannot be narrower, because of the rounding of the loss"


def _matched(pairs: Pairs, match: str | None) -> Pairs:
    if match == "none":
        return pairs
    if not pairs.equal.any():
        raise UserError(
            "no pair has two texts with equal numbers of words; `match: none` (--match none) compares texts of any "
            "length",
            "EPS-S061",
        )
    return pairs.of_equal_length()
