"""The comparison of two mechanisms: on texts by any question, or in a project by the guesses of its last audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from epsilometer.auditing import question as questions
from epsilometer.auditing.question import Question
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.core.errors import UserError
from epsilometer.doors import compare as door
from epsilometer.project.paths import inside
from epsilometer.questions.which_text import WhichText
from epsilometer.studies.texts.comparing import compare_cells
from epsilometer.studies.texts.params import read

Side = Named | tuple[Named, float]
"""A mechanism at an epsilon, or a mechanism without a privacy budget."""


class Compared(Printed):
    """The table of a comparison, which prints its findings."""

    short = ("dataset", "attack", "p Holm", "finding")


class ComparedByQuestion(Printed):
    """The table of a comparison by another question, which prints its findings."""

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

    source: the texts, or the folder of a project with an audit, whose guesses are compared. first, second: a mechanism,
    as in `epsilometer.audit`, with its epsilon: `("tem", 11)`; or by itself if it has no privacy budget: `"presidio"`;
    in a project by name. trials, design: on texts; a project uses those of its params.yaml. trials: None for the
    question's usual number, which is 2,000 for which_text. Returns a row for the strongest of the attacks on both, and
    one for each of these (in a project for each data set): dataset, attack, attacks (those compared), trials, `first
    only` and `second only` (trials in which the adversary was right about only that one), `p value`, `p Holm` and the
    `finding` in words, all of which hold at once at level alpha; and for each mechanism the delta at 4 nats that its
    most confident guesses prove (`first delta at 4`, `second delta at 4`; null if not testable), which an average does
    not show. The last rows are for attacks on only one of the two, with the loss in the `finding` and without a
    comparison. The table prints four columns and holds all: `table.columns`.

    question: another question by name, path of a file or as an object, on texts or on a table with a column `text` and
    the columns that the question reads. Its columns are dataset and those of `epsilometer.doors.compare.compare`.
    Raises UserError for an epsilon that was not audited, that is missing or that has no effect, for a question without
    an outcome for each trial, and for values outside their range.
    """
    (left, left_at), (right, right_at) = _at(first), _at(second)
    by = questions.question(question)
    if not isinstance(source, (str, Path)):
        rows = door.compare_on(source, (left, left_at), (right, right_at), trials, question=by, design=design)
        return (Compared if isinstance(by, WhichText) else ComparedByQuestion)(rows)
    if design != STANDARD or not (isinstance(left, str) and isinstance(right, str)):
        raise UserError("a project has its design in params.yaml, and its mechanisms by name")
    if not isinstance(by, WhichText):
        raise UserError("a project's audit compares by which_text; give texts to compare by another question")
    with inside(source):
        params = read()
        return Compared(compare_cells(params, (left, left_at), (right, right_at), params.audit.alpha))


def _at(side: Side) -> tuple[Named, float | None]:
    """A mechanism, and its epsilon or None."""
    if not isinstance(side, tuple):
        return side, None
    if len(side) != 2:
        raise UserError(
            f'a mechanism is compared at one epsilon, as ("tem", 11), got {len(side)} values; give one that takes no '
            'privacy budget by itself, as "presidio"'
        )
    return side
