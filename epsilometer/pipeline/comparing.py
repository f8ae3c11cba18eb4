"""The comparison of two mechanisms: on texts by any question, or in a project by the trials of its last audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing import question as questions
from epsilometer.auditing.question import Question
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.cells.comparing import compare_cells, labels
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget, budget_name
from epsilometer.doors import compare as door
from epsilometer.doors.record import observed_in
from epsilometer.pipeline.answers import recorded
from epsilometer.pipeline.asking import asked_for
from epsilometer.pipeline.params import read
from epsilometer.pipeline.question_params import QuestionEntry, QuestionParams
from epsilometer.project.paths import inside
from epsilometer.questions.which_text import WhichText

Side = Named | tuple[Named, float]
"""A mechanism with its epsilon, or a mechanism without a privacy budget."""


class Compared(Printed):
    """The table of a comparison by attacks; it prints the findings."""

    short = ("dataset", "attack", "p Holm", "finding")


class ComparedByQuestion(Printed):
    """The table of a comparison by another question; it prints the findings."""

    short = ("dataset", "figure", "p Holm", "finding")


def compare(
    source: Sequence[str] | pl.DataFrame | str | Path,
    first: Side,
    second: Side,
    *,
    question: str | Path | Question = "which_text",
    trials: int | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Compare how much two mechanisms leak on the same trials, by McNemar's exact test with Holm's correction.

    source: the texts; or the folder of a project, whose last audit has the guesses to compare.
    first, second: a pair of a mechanism, as in `epsilometer.audit`, and its epsilon: `("tem", 11)`. A mechanism without
    a privacy budget is given by itself: `"presidio"`. In a project, a mechanism is given by its name.
    trials, design: only for texts, because a project has them in its params.yaml. trials: None for the question's usual
    number, which is 2,000 for which_text.
    question: a question by its name, the path of a file, or an object. If the texts are a table (column `text`), the
    question may read further columns. In a project, any question but which_text needs two entries of `questions` in
    params.yaml.

    Returns a row for each attack that applies to both mechanisms, and a row for the strongest of these attacks. A
    project has such rows for each data set. The table prints four of these columns:
    - dataset, attack, attacks (the compared attacks), trials;
    - `first only`, `second only`: numbers of trials in which the adversary was right about only that mechanism;
    - `p value`, `p Holm` and the `finding` in words; all findings together are wrong with probability at most alpha;
    - `first delta at 4`, `second delta at 4`: lower bounds of delta at 4 nats by the most confident guesses, which
    show rare outputs that an average hides; null if not testable.

    The last rows are of attacks that apply to only one mechanism; their `finding` states that mechanism's loss. For
    questions except which_text, the columns are dataset, entries (of params.yaml) and those of
    `epsilometer.doors.compare.compare`.

    Raises UserError for an epsilon that was not audited, is missing or has no effect; for a question without an outcome
    for each trial; and for values outside their range.
    """
    (left, left_at), (right, right_at) = _at(first), _at(second)
    if not isinstance(source, (str, Path)):
        by = questions.question(question)
        rows = door.compare_on(source, (left, left_at), (right, right_at), trials, question=by, design=design)
        return (Compared if isinstance(by, WhichText) else ComparedByQuestion)(rows)
    if design != STANDARD or not (isinstance(left, str) and isinstance(right, str)):
        raise UserError("a project has its design in params.yaml, and its mechanisms by name", "EPS-P012")
    with inside(source):
        params = read()
        if params.cells and (isinstance(question, WhichText) or str(question) == "which_text"):
            return Compared(compare_cells(params, (left, left_at), (right, right_at), params.audit.alpha))
        return ComparedByQuestion(compare_entries(params, (left, left_at), (right, right_at), question))


def compare_entries(
    params: QuestionParams,
    first: tuple[str, float | None],
    second: tuple[str, float | None],
    question: str | Path | Question,
    settings: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of a comparison by the entries of `questions` in params.yaml, from their recorded trials.

    Compares each pair of entries with the same question, settings, data set and number of trials. first, second: a
    mechanism's key in params.yaml, and its epsilon. settings: if the question is given by name, the settings that the
    entries must have. Raises UserError if there is no such pair.
    """
    chosen = [name for name in params.questions if _is_of(params, name, question, settings or {})]
    pairs = [
        (name, other)
        for name in chosen
        for other in chosen
        if (params.questions[name].mechanism, params.questions[other].mechanism) == (first[0], second[0])
        and _trials(params.questions[name]) == _trials(params.questions[other])
    ]
    if not pairs:
        raise UserError(
            f"no two entries of questions ask {question} about {first[0]} and {second[0]} with the same settings, data "
            f"set and trials; add them to params.yaml, or give texts. Entries of this question: "
            f"{', '.join(chosen) or 'none'}",
            "EPS-P013",
        )
    figures = [(_at_epsilon(params, a, first[1]), _at_epsilon(params, b, second[1])) for a, b in pairs]
    at_least = any(row["at_least"] for sides in figures for side in sides for row in side.to_dicts())
    sides = [[{row["figure"]: observed_in(row) for row in side.to_dicts()} for side in pair] for pair in figures]
    rows = door.compared(sides, [labels(first, second)] * len(sides), params.audit.alpha, at_least=at_least)
    return [
        {"dataset": params.questions[a].dataset, "entries": a if a == b else f"{a}; {b}", **row}
        for (a, b), some in zip(pairs, rows, strict=True)
        for row in some
    ]


def _is_of(params: QuestionParams, name: str, question: str | Path | Question, settings: Mapping[str, Any]) -> bool:
    """Return True if an entry asks this question, which is a name (with these settings) or an object."""
    entry = params.questions[name]
    if not isinstance(question, (str, Path)):
        return asked_for(params, name) == question
    return entry.question == str(question) and settings.items() <= entry.settings.items()


def _trials(entry: QuestionEntry) -> dict[str, Any]:
    return entry.model_dump(include={"question", "settings", "dataset", "trials"})


def _at_epsilon(params: QuestionParams, name: str, epsilon: float | None) -> pl.DataFrame:
    """Return the figures of an entry at one epsilon. Raises UserError if they were not measured there."""
    every = recorded(params, name)
    if every.is_empty():
        raise UserError(
            f"{name} has no outcome for each trial, so nothing can be paired; compare another question", "EPS-P014"
        )
    rows = tables.at_epsilon(every, epsilon)
    if rows.is_empty():
        epsilons = ", ".join(map(budget_name, every["epsilon"].unique().sort()))
        at = at_budget(epsilon) or " without an epsilon"
        raise UserError(f"{name} was not measured{at}; give one of its epsilons ({epsilons})", "EPS-P015")
    return rows


def _at(side: Side) -> tuple[Named, float | None]:
    """Return a mechanism, and its epsilon or None."""
    if not isinstance(side, tuple):
        return side, None
    if len(side) != 2:
        raise UserError(
            f'a mechanism is compared at one epsilon, as in ("tem", 11), got {len(side)} values; give a mechanism '
            'without a privacy budget by itself, as in "presidio"',
            "EPS-P016",
        )
    return side
