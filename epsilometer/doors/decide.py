"""A decision: the privacy budgets at which a mechanism, on given texts, keeps limits on the figures of questions.

A budget passes if every limit is kept. Budgets are judged in ascending order. After the first budget that fails, no
larger budget passes. So the probability that any budget beyond a limit passes is at most alpha / 2, for any number of
budgets and limits (`auditing/decisions/decide.py` has the proof). For each question, the probability that any lower
bound is wrong is at most alpha / 2. The number of trials is fixed beforehand. If the stated law proves that a limit is
kept against every adversary, and rewrites do not refute that law, no attack runs. If answers of a service are missing,
no limit passes. If an attack is right less often than by chance, its figure does not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.evidence.bounds import bounds, decisive
from epsilometer.auditing.evidence.evidence import Evidence
from epsilometer.auditing.evidence.limit import Limit
from epsilometer.auditing.evidence.status import Status, heaviest
from epsilometer.auditing.gate_statistics import Errors, point
from epsilometer.auditing.question import Observed, Question, ShownByLaw, by_figure, check
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.answers import Tally
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.core.sizes import MOST_TRIALS
from epsilometer.doors.ask import say_answers, turned_round

COLUMNS = {
    "epsilon": pl.Float64,
    "figure": pl.String,
    "measure": pl.String,
    "allowed": pl.Float64,
    "trials": pl.Int64,
    "point": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "by": pl.String,
    "decision": pl.String,
    "needed": pl.Int64,
}


class Decisions(Printed):
    """The table of `decide`."""

    short = ("epsilon", "figure", "allowed", "low", "high", "decision", "needed")


def decide(
    limits: Sequence[tuple[Question, float]],
    of: Subject,
    epsilons: Sequence[float] | None = None,
    trials: int | None = None,
) -> Decisions:
    """Return the status of each limit at each budget, and the status of `all` limits together.

    limits: pairs of a question and the largest value allowed (for similarity, the smallest). epsilons: budgets; None
    for the subject's own budget. trials: None for each question's usual number. Columns: epsilon, figure (`all` last),
    measure, allowed, trials, point (the figure at the observed rate), low and high (the figure's bounds), by (the
    source of the bounds), decision (`evidence.status.Status`) and needed (the number of trials that could show that an
    open limit is kept; null if there is no such number, or if more trials would not help). Raises UserError if a
    subject lacks what a question needs.
    """
    if not limits:
        raise UserError("nothing is limited; give a limit on a question (--limit which_text=1)", "EPS-Q009")
    for question, _ in limits:
        check(question, of)
    subjects = [replace(of, tally=Tally())] if epsilons is None else [of.at(epsilon) for epsilon in sorted(epsilons)]
    by_budget = []
    for subject in subjects:
        by_budget.append([row for question, allowed in limits for row in _rows(question, allowed, subject, trials)])
        say_answers(subject)
    words = in_sequence([heaviest(row["decision"] for row in rows) for rows in by_budget])
    every = [
        {"epsilon": stored(subject.epsilon)} | row
        for subject, rows, word in zip(subjects, by_budget, words, strict=True)
        for row in [*rows, {"figure": ALL, "decision": word}]
    ]
    return Decisions(every, schema=COLUMNS, orient="row")


def in_sequence(words: Sequence[Status]) -> list[Status]:
    """Return the statuses of all limits together, at ascending budgets. After a budget that fails, no budget passes."""
    decided = list[Status]()
    for word in words:
        before = not decided or decided[-1].passes
        decided.append(Status.OPEN if word.passes and not before else word)
    return decided


@dataclass(frozen=True)
class Decided:
    """The status of a limit on one figure, and the evidence that decides.

    low, high: the bounds of the figure, with the same errors as the status. needed: the number of trials that
    could show that an open limit is kept; None if there is no such number, or if more trials would not help.
    """

    evidence: Evidence
    status: Status
    low: float
    high: float
    needed: int | None


def shown_by_law(question: Question, limit: Limit, of: Subject, count: int) -> Observed | None:
    """Return the law's evidence if the law proves that the limit is kept, and rewrites do not refute it; else None."""
    if not isinstance(question, ShownByLaw):
        return None
    return question.by_law(of, limit, count, errors=_errors(of))[0]


def statuses(question: Question, limit: Limit, of: Subject, observed: Sequence[Observed]) -> list[Decided]:
    """Return the status of a limit on each figure that was observed at one budget.

    No figure passes if answers of a service are missing, since a missing answer looks private. A figure does not pass
    if its attack is right less often than by chance.
    """
    errors, groups, every = _errors(of), by_figure(observed), []
    below, above = errors.alpha / len(groups), errors.beta
    for group in groups:
        word, evidence = decisive([each.evidence for each in group], limit, below, above)
        ends = (above, below) if limit.at_least else (below, above)
        low, high = bounds(evidence.data, evidence.scale, *ends)
        needed = _needed(question, limit, of, len(groups), errors=errors) if word is Status.OPEN else None
        few = needed is not None and needed > evidence.data.n
        word = Status.NOT_TESTABLE if few else word
        if word.passes and (of.tally.total.missing or any(turned_round(each) for each in group)):
            word = Status.OPEN
        every.append(Decided(evidence, word, low, high, needed=needed if few else None))
    return every


def _rows(question: Question, allowed: float, of: Subject, trials: int | None) -> list[dict[str, Any]]:
    """Return the rows of one question at one budget."""
    limit, count = question.limit(of, allowed), question.usual if trials is None else trials
    shown = shown_by_law(question, limit, of, count)
    rows = []
    for each in statuses(question, limit, of, question.observe(of, count) if shown is None else [shown]):
        evidence = each.evidence
        row = {"figure": evidence.of, "measure": evidence.scale.measure, "allowed": allowed, "trials": evidence.data.n}
        row |= {
            "point": max(point(evidence), evidence.scale.figure(0.0)),
            "low": each.low,
            "high": each.high,
            "by": str(evidence.by),
        }
        rows.append(row | {"decision": each.status, "needed": each.needed})
    return rows


def _errors(of: Subject) -> Errors:
    return Errors(of.design.alpha / 2, of.design.alpha / 2)


def _needed(question: Question, limit: Limit, of: Subject, tests: int, *, errors: Errors) -> int | None:
    """Return the number of trials that can show that a limit is kept; None if there is no such number."""
    try:
        return question.amount(of, limit, MOST_TRIALS, tests, errors=errors)
    except UserError:
        return None
