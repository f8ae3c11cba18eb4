"""A re-audit: changes of the figures of any questions since they were accepted as a baseline.

The baseline contains the outcome of every trial, and a re-audit observes the same trials again. The sign test compares
the outcomes (for outcomes of 0 or 1 it is McNemar's exact test). The test's p-values are corrected for the number of
figures by the methods of Holm and Tarone. The re-audits of a year share alpha (`reaudit/drift.py`). A re-audit also
uses the same random numbers, so an unchanged mechanism gives equal outcomes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from epsilometer.auditing.evidence.status import Change
from epsilometer.auditing.limits.accepted import chosen_settings, read_as
from epsilometer.auditing.question import Gives, Question, check, question
from epsilometer.auditing.subject import Subject
from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import stored
from epsilometer.doors.ask import answers
from epsilometer.reaudit.drift import Drift, Measured, Row, judge, level
from epsilometer.reaudit.hashes import DIGITS


class Figure(BaseModel):
    """A figure of a question.

    low, high: the bounds of the figure, null if infinite. trials: a hash of the trials' texts. outcomes: one number per
    trial; a larger number is worse.
    """

    model_config = ConfigDict(extra="forbid")

    measure: str
    point: float | None
    low: float | None
    high: float | None
    trials: str
    outcomes: list[float]


class Asked(BaseModel):
    """A question with its settings, its number of trials, and its figures by name."""

    model_config = ConfigDict(extra="forbid")

    question: str
    settings: dict[str, Any]
    count: int = Field(gt=0)
    figures: dict[str, Figure]


class Baseline(BaseModel):
    """Accepted figures of a subject. reaudits: the dates of re-audits; all re-audits of a year share alpha."""

    model_config = ConfigDict(extra="forbid")

    version: Literal["epsilometer/answers/1"] = Field(alias="schema", default="epsilometer/answers/1")
    mechanism: str
    epsilon: float | None
    texts: str
    seed: int
    alpha: float
    questions: list[Asked]
    reaudits: list[str] = []

    @property
    def asked_for(self) -> list[Question]:
        """The questions, with their settings."""
        return [question(entry.question, entry.settings) for entry in self.questions]


def accept(asked_for: Mapping[str, Question], of: Subject, trials: int | None = None) -> Baseline:
    """Return the figures of these questions as a baseline.

    asked_for: questions by name or path, from which `question` builds them again. trials: None for each question's
    usual number. Raises UserError for a question without an outcome per trial, and if the subject lacks what a question
    needs.
    """
    return Baseline(
        mechanism=of.name,
        epsilon=stored(of.epsilon),
        texts=of.digest,
        seed=of.design.seed,
        alpha=of.design.alpha,
        questions=[
            Asked(
                question=name,
                settings=chosen_settings(each),
                count=(count := each.usual if trials is None else trials),
                figures=_figures(each, of, count),
            )
            for name, each in asked_for.items()
        ],
    )


def reaudit(before: Baseline, of: Subject) -> tuple[Baseline, list[Drift]]:
    """Observe a baseline's trials again; return the baseline with today's date, and each figure's change.

    Raises UserError if the mechanism, the epsilon or the texts differ from the baseline's, since the trials would then
    differ, too.
    """
    now = {"mechanism": of.name, "epsilon": stored(of.epsilon), "texts": of.digest}
    for what, value in now.items():
        if (then := getattr(before, what)) != value:
            raise UserError(
                f"the baseline was accepted for {what} {then}, but this re-audit has {value}; accept a new baseline",
                "EPS-Q017",
            )
    of = of.seeded(before.seed)
    # Each year has its own alpha. If the clock was set back, the alpha of an earlier year must not be used again.
    date = max([*before.reaudits, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"])
    earlier = sum(text[:4] == date[:4] for text in before.reaudits)
    measured = {
        _row(of, entry.question, name): _measured(figure, before.alpha)
        for entry in before.questions
        for name, figure in entry.figures.items()
    }
    again = {
        _row(of, entry.question, name): _measured(figure, before.alpha)
        for entry, asked_for in zip(before.questions, before.asked_for, strict=True)
        for name, figure in _figures(asked_for, of, entry.count).items()
    }
    drifts = judge(measured, again, level(before.alpha, earlier))
    return before.model_copy(update={"reaudits": [*before.reaudits, date]}), drifts


def exit_code(drifts: Sequence[Drift]) -> int:
    """Return 1 if a figure is worse, 3 if no figure could be tested, else 0."""
    if any(drift.verdict is Change.WORSE for drift in drifts):
        return 1
    return 3 if all(drift.verdict is Change.NOT_TESTABLE for drift in drifts) else 0


def write(baseline: Baseline, path: Path) -> None:
    """Write the baseline as JSON."""
    write_text(baseline.model_dump_json(indent=1, by_alias=True) + "\n", path)


def read(path: Path) -> Baseline:
    """Read a baseline. Raises UserError if the file is missing, or is not a baseline."""
    return read_as(Baseline, path)


def _figures(asked_for: Question, of: Subject, count: int) -> dict[str, Figure]:
    if Gives.OUTCOMES not in asked_for.gives:
        raise UserError(
            f"{type(asked_for).__name__} has no outcome for each trial, so it cannot show a change; accept another "
            "question, such as which_text",
            "EPS-Q021",
        )
    check(asked_for, of)
    worse_is_less = asked_for.limit(of, 0.5).at_least
    observed = list(asked_for.observe(of, count))
    rows = answers(observed, of.epsilon, of.design.alpha)[: len(observed)]
    return {
        each.name: Figure(
            measure=row["measure"],
            **{name: row[name] if math.isfinite(row[name]) else None for name in ("point", "low", "high")},
            trials=hashlib.sha256("\n".join(text for text, _ in each.of_texts).encode()).hexdigest()[:DIGITS],
            outcomes=(1 - each.values if worse_is_less else each.values).tolist(),
        )
        for each, row in zip(observed, rows, strict=True)
    }


def _row(of: Subject, question: str, figure: str) -> Row:
    named = figure if figure.startswith(question) else f"{question}: {figure}"
    return Row("texts", of.name, stored(of.epsilon), named)


def _measured(figure: Figure, alpha: float) -> Measured:
    """Return a figure in the form that re-audits compare."""
    low, point, high = (math.inf if end is None else end for end in (figure.low, figure.point, figure.high))
    return Measured.of_figure(np.array(figure.outcomes), figure.trials, (low, point, high), figure.measure, alpha=alpha)
