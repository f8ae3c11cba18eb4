"""Calibration: the epsilon at which a figure of any question meets a target.

If the question's limits are upper limits, as for a loss, its largest figure must meet the target. If they are lower
limits, as for similarity, its smallest figure must meet the target. `computed.meet` chooses the epsilons. A look
observes the figures at one epsilon in fresh trials. The figures share the error level of the look
(`calibration/looks.py`). The first look at an epsilon has enough trials to show whether the figure keeps or exceeds a
limit at the target (`Question.amount`). While the figure's interval contains the target, each further look has GROWTH
times as many trials as the look before, up to 1 / PARTS of the budget. which_text has its own search by betting, which
takes fewer rewrites (`calibration/search.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing import text_audit as api
from epsilometer.auditing.calibration.computed import Met, advice, meet
from epsilometer.auditing.calibration.looks import Look, Looks, Turn, level
from epsilometer.auditing.calibration.sampled import FALLING, FOUND, OUTSIDE, Goal
from epsilometer.auditing.calibration.search import search as by_betting
from epsilometer.auditing.evidence.bounds import bounds
from epsilometer.auditing.evidence.evidence import Covers
from epsilometer.auditing.evidence.limit import Limit
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.question import Gives, OfGuesses, Question, check, question
from epsilometer.auditing.subject import Subject, subject
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.auditing.trials.unread import MECHANISM, say, say_language, unread
from epsilometer.cells.calibrating import losses
from epsilometer.cells.calibrating.losses import NOT_SEARCHED, STANDARD_SEARCH, Search
from epsilometer.core.errors import LawError, UserError
from epsilometer.core.mechanism import has_budget
from epsilometer.core.randomness import Noise
from epsilometer.questions.which_text import WhichText
from epsilometer.runtime.progress import now_and_then
from epsilometer.text.words import words

GROWTH = 4  # factor by which the number of trials grows with each further look at an epsilon
PARTS = 4  # a look spends at most budget / PARTS
LOOKS = 12  # the first look at an epsilon spends at most budget / LOOKS


@dataclass(frozen=True)
class Searched:
    """The result of a search.

    status, low, high: as in `computed.Met`; for which_text as in `sampled.Calibrated`. epsilon: the field `best` of the
    same class. trials: the number of rewrites. by: the measure of the search; for which_text, hits or posteriors.
    attacks: the attacks whose figures were searched; empty if the figures cover every adversary. reason: the reason for
    a missing epsilon, or a remark.
    """

    status: str
    epsilon: float | None
    low: float
    high: float
    trials: int
    by: str
    attacks: Sequence[str]
    reason: str | None

    @property
    def row(self) -> dict[str, Any]:
        """The columns of this result in the table of `epsilometer.calibrate`."""
        values = {name: getattr(self, name) for name in ("status", "epsilon", "low", "high", "trials", "by")}
        between = "; " if any("," in name for name in self.attacks) else ", "
        return {**values, "attacks": between.join(self.attacks) or None, "reason": self.reason}


def calibrate(question: Question, of: Subject, target: float, search: Search = STANDARD_SEARCH) -> Searched:
    """Search for the epsilon at which the question's figure meets a target.

    search: the range of epsilons, the width of the interval and the budget of rewrites. If the figure crosses the
    target only once, the interval contains the epsilon with probability at least 1 - `of.design.alpha`. Raises
    UserError for a question without a lower and an upper bound, a mechanism without a privacy budget, a subject that
    lacks what the question needs, a target out of range, and a budget too small to show on which side of the target a
    figure lies.
    """
    _check_bounds(question)
    if not has_budget(of.mechanism):
        raise UserError(
            "this mechanism has no privacy budget, so there is none to calibrate; audit it instead", "EPS-Q001"
        )
    check(question, of)
    goal = search.goal(target)
    if isinstance(question, WhichText):
        return _by_betting(of, goal, search)
    limit = question.limit(of, target)
    of = replace(of, tally=Tally())
    looking = _Looking(question, of, limit, goal.budget)
    looks = Looks(looking, target, goal.budget, of.design.alpha)
    say_ends = now_and_then()

    def watch(low: float, high: float) -> None:
        say_ends(f"{of.name}: epsilon between {low:.3g} and {high:.3g} after {looks.spent:,} rewrites")

    met = meet(looks, target, goal.low, goal.high, width=goal.width, watch=watch)
    of.tally.say()
    reason, by = _reason(met, limit, looks.spent), limit.scale.measure
    ends = (met.status, met.best, met.low, met.high)
    return Searched(*ends, trials=looks.spent, by=by, attacks=looking.attacks, reason=reason)


class _Looking:
    """Observer of a question's figure in fresh trials. Each further look at an epsilon has GROWTH times the trials."""

    def __init__(self, question: Question, of: Subject, limit: Limit, budget: int) -> None:
        """Plan the first look. Raises UserError if the part of the budget for this look is too small to decide."""
        self._question, self._of, self._limit, self._number = question, of, limit, 0
        tests, last = len(question.tests(of)), level(of.design.alpha, LOOKS)
        errors = Errors(alpha=last / 2, beta=last / 2 / max(1, tests))
        try:
            self._fewest = question.amount(of, limit, budget // LOOKS, tests, errors=errors)
        except UserError as error:
            share = f"the first look at an epsilon has {budget // LOOKS:,} of {budget:,} rewrites"
            raise UserError(f"{error} ({share})", error.code) from None
        self._most = budget // PARTS
        self.attacks: Sequence[str] = ()
        self._each = 0.0  # rewrites per trial, measured by the first look

    def __call__(self, epsilon: float, turn: Turn) -> Look | None:
        """Return the bounds, at this epsilon, of the figure that must meet the target; None if no look is possible."""
        count = self._count(turn)
        if count is None:
            return None
        self._number += 1
        stream = Noise.named(1, self._of.design.seed, "calibrate", self._limit.scale.measure, self._number)
        seed = int(stream.generator(0).integers(1 << 31))
        of = replace(self._of.at(epsilon).seeded(seed), tally=self._of.tally)
        before = of.tally.total.rewrites
        observed = self._question.observe(of, count)
        self.attacks = [each.name for each in observed if each.evidence.covers is Covers.THESE]
        error = turn.level / 2 / len(observed)
        every = [bounds(each.evidence.data, each.evidence.scale, error, error) for each in observed]
        most = min if self._limit.at_least else max
        low, high = (most(ends) for ends in zip(*every, strict=True))
        rewrites = of.tally.total.rewrites - before
        self._each = max(self._each, rewrites / count)
        return Look(low, high, rewrites)

    def _count(self, turn: Turn) -> int | None:
        """Return the number of trials of a look; None if it would be too small, or no larger than in the last look."""
        most = self._fewest if not self._each else int(min(self._most, turn.left) / self._each)
        before, planned = (self._fewest * GROWTH**again for again in (turn.again - 1, turn.again))
        if turn.again and before >= most:
            return None
        return min(planned, most) if most >= self._fewest else None


def _by_betting(of: Subject, goal: Goal, search: Search) -> Searched:
    """Return the result of which_text's own search."""
    calibrated = by_betting(
        of.pool, of.mechanism, of.attacks, goal, design=of.design, watch=losses.progress(of.name, search)
    )
    return Searched(
        calibrated.status,
        calibrated.best,
        calibrated.low,
        calibrated.high,
        trials=calibrated.trials,
        by=calibrated.by,
        attacks=calibrated.attacks,
        reason=losses.reason(calibrated, matched=of.pool.groups is not None),
    )


def _reason(met: Met, limit: Limit, spent: int) -> str | None:
    """Return the reason for a missing epsilon, or a remark on the epsilon; None if there is nothing to say."""
    if met.status in (OUTSIDE, FALLING):
        ends = [(at, *met.figures[at]) for at in (min(met.figures), max(met.figures))]
        said = [f"{low:.3g} to {high:.3g} at epsilon {at:g}" for at, low, high in ends]
        return advice(met, f"the {'smallest' if limit.at_least else 'largest'} figure of {limit.scale.measure}", *said)
    if met.status == FOUND:
        return None
    return f"{spent:,} rewrites did not decide; a larger `budget` (--budget) allows more at each epsilon"


def calibrate_on(
    texts: Sequence[str] | pl.DataFrame,
    mechanism: Named,
    target: float,
    search: Search = STANDARD_SEARCH,
    *,
    settings: Mapping[str, Any] | None = None,
    design: Design = STANDARD,
    name: str = "texts",
) -> dict[str, Any]:
    """Calibrate a mechanism on texts, or on a table with the question's columns; return the row of the result.

    name: the name of the texts in column `dataset`.
    """
    asked_for = question(search.question)
    listed = texts["text"].to_list() if isinstance(texts, pl.DataFrame) else texts
    if isinstance(asked_for, WhichText):
        return losses.calibrate_texts(listed, mechanism, target, search, settings=settings, design=design, name=name)
    check_search(asked_for, search)
    search.goal(target)
    built, label = api.as_mechanism(mechanism, settings, api.distinct(listed)), api.label(mechanism)
    row = {"dataset": name, "mechanism": label, "target": target, "sees": None}

    def run() -> Searched:
        return calibrate(asked_for, searching(texts, built, label, search, design=design), target, search)

    return row | searched(run)


def searched(run: Callable[[], Searched]) -> dict[str, Any]:
    """Run a search and return its columns. If the search cannot run, the columns have the reason and no epsilon."""
    try:
        return run().row
    except LawError:  # an invalid law of the mechanism must not look like a skipped search
        raise
    except UserError as error:
        nothing = dict.fromkeys(("epsilon", "low", "high")) | {"trials": 0, "by": None, "attacks": None}
        return {"status": NOT_SEARCHED, **nothing, "reason": str(error)}


def searching(
    texts: Sequence[str] | pl.DataFrame, built: Any, label: str, search: Search, *, design: Design
) -> Subject:
    """Return the mechanism on texts, with the attacks of a search. Raises UserError if it has no privacy budget."""
    if not has_budget(built):
        raise UserError(
            "this mechanism has no privacy budget, so there is none to calibrate; audit it instead", "EPS-Q002"
        )
    named = None if search.attack == losses.STRONGEST else [search.attack]
    of = subject(texts, built, search.goal(1.0).high, named, design=design)
    say(unread(built, of.pool.texts))
    say_language(of.pool.texts, {**of.attacks, MECHANISM: built})
    return replace(with_search(of, search), name=label)


def with_search(of: Subject, search: Search) -> Subject:
    """Return the subject with the attacks of a search, and with candidates of equal length if the search asks for them.

    Raises UserError for an attack that does not apply to the mechanism.
    """
    attacks, groups = dict(of.attacks), of.pool.groups
    if search.attack != losses.STRONGEST:
        if search.attack not in attacks:
            raise UserError(f"{search.attack} cannot attack {of.name}; name one of {', '.join(attacks)}", "EPS-Q003")
        attacks = {search.attack: attacks[search.attack]}
    if search.match is not None:
        groups = np.array([len(words(text)) for text in of.pool.texts]) if search.match == "words" else None
    attacks = api.seeing(attacks, of.mechanism, search.sees)
    return replace(of, pool=replace(of.pool, groups=groups), attacks=attacks)


def _check_bounds(question: Question) -> None:
    if not {Gives.LOW, Gives.HIGH} <= question.gives:
        raise UserError(
            f"{type(question).__name__} does not bound its figure from both sides, so no epsilon can be shown to meet "
            "a target; calibrate by another question, such as which_text",
            "EPS-Q004",
        )


def check_search(question: Question, search: Search) -> None:
    """Raise UserError for a question that cannot be searched, and for settings that have no effect on the question."""
    _check_bounds(question)
    of_guesses = ("attack", "sees", "match")
    names = ["measure", "at", *(() if isinstance(question, OfGuesses) else of_guesses)]
    if idle := [name for name in names if getattr(search, name) != getattr(STANDARD_SEARCH, name)]:
        raise UserError(
            f"{', '.join(idle)} {'has' if len(idle) == 1 else 'have'} no effect on {type(question).__name__}; leave "
            "out what only which_text reads, and set the question's own settings (--with)",
            "EPS-Q005",
        )
