"""An audit: the bounds on the figures of any question, at each privacy budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.estimation.betting import interval
from epsilometer.auditing.estimation.successes import below_chance
from epsilometer.auditing.evidence.bounds import bounds
from epsilometer.auditing.evidence.evidence import By, Hits
from epsilometer.auditing.gate_statistics import point
from epsilometer.auditing.question import Observed, Question, check
from epsilometer.auditing.question import question as by_name
from epsilometer.auditing.results.diagnostics import STRONGEST
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.answers import Tally
from epsilometer.core.guarantees import stored
from epsilometer.runtime.progress import note

_BELOW = 1e-6  # probability of wrongly calling an attack worse than blind guessing
ANSWERS = {
    "epsilon": pl.Float64,
    "figure": pl.String,
    "measure": pl.String,
    "by": pl.String,
    "trials": pl.Int64,
    "point": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "covers": pl.String,
}


class Answers(Printed):
    """The table of `ask`."""

    short = ("epsilon", "figure", "trials", "point", "low", "high", "covers")


def ask(
    question: str | Path | Question,
    subject: Subject,
    epsilons: Sequence[float] | None = None,
    trials: int | None = None,
) -> Answers:
    """Return the bounds on the figures of a question, a row per budget and figure.

    question: its name, the path of a file, or `epsilometer.question(name, settings)`. subject: from
    `epsilometer.subject`. epsilons: budgets; None for the subject's own budget. trials: None for the question's usual
    number. Columns: epsilon, figure (the attack, kind or metric), measure, by (the source of the evidence), trials,
    point (the figure at the observed rate), low and high (the figure's bounds, each wrong with probability at most
    alpha / 2) and covers (the adversaries that the upper bound covers). The design sets alpha. If m > 1 attacks ran, a
    last row `strongest` has the largest lower bound and the largest upper bound of the attacks, computed with alpha / m
    instead of alpha. Raises UserError if the subject lacks what the question needs.
    """
    question = by_name(question)
    check(question, subject)
    subjects = [replace(subject, tally=Tally())] if epsilons is None else [subject.at(epsilon) for epsilon in epsilons]
    rows = []
    for of in subjects:
        observed = question.observe(of, question.usual if trials is None else trials)
        rows += answers(observed, of.epsilon, of.design.alpha)
        say_answers(of)
    return Answers(rows, schema=ANSWERS, orient="row")


def answers(observed: Sequence[Observed], epsilon: float, alpha: float) -> list[dict[str, Any]]:
    """Return the rows of one budget: one for each figure, and one for the strongest of several attacks."""
    rows = [_row(each, epsilon, alpha) for each in observed]
    by_attacks = [each for each in observed if each.evidence.by is By.ATTACK]
    if len(by_attacks) < 2:
        return rows
    shared = [_row(each, epsilon, alpha / len(by_attacks)) for each in by_attacks]
    best = max(shared, key=lambda row: (row["low"], row["point"]))
    most = max(row["high"] for row in shared)
    return [*rows, best | {"figure": f"{STRONGEST}: {best['figure']}", "high": most}]


def turned_round(observed: Observed) -> bool:
    """Return True if an attack is right significantly less often than blind guessing.

    Such an attack does distinguish the candidates: with the sign of its score flipped, it would beat chance. So its
    outcomes are no evidence that a limit is kept, or that one mechanism leaks less than another.
    """
    data, options = observed.evidence.data, observed.evidence.scale.options
    if options is None or not len(observed.values):
        return False
    if isinstance(data, Hits):
        return below_chance(data.right, data.n, options)
    return interval(observed.values, 2 * _BELOW, fixed=True)[1] < 1 / options


def say_answers(of: Subject) -> None:
    """Print the faults in a subject's rewrites, and the effect of repeated answers on the figures."""
    of.tally.say()
    memory = of.tally.memory(of.epsilon)
    if memory is not None and (said := memory.said()):
        note(said)


def _row(observed: Observed, epsilon: float, alpha: float) -> dict[str, Any]:
    evidence = observed.evidence
    low, high = bounds(evidence.data, evidence.scale, alpha / 2, alpha / 2)
    return {
        "epsilon": stored(epsilon),
        "figure": evidence.of,
        "measure": evidence.scale.measure,
        "by": str(evidence.by),
        "trials": evidence.data.n,
        "point": max(point(evidence), evidence.scale.figure(0.0)),  # an observed difference may be negative
        "low": low,
        "high": high,
        "covers": str(evidence.covers),
    }
