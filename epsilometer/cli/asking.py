"""Options for questions, their settings, and limits on their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import TextOptions, number, read_settings, shipped
from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.auditing.question import Question

With = Annotated[
    list[str],
    typer.Option(
        "--with",
        metavar="QUESTION.KEY=VALUE",
        help="Setting of a question, such as linking.author=COLUMN (`epsilometer list questions`). A command with one "
        "question also takes author=COLUMN.",
    ),
]


@dataclass(frozen=True)
class LimitOptions:
    """Limits on the figures of questions."""

    limit: Annotated[
        list[str],
        typer.Option(
            metavar="QUESTION=VALUE",
            help=f"The largest figure allowed (for similarity the smallest): {shipped('questions')}, or a .py file.",
        ),
    ] = field(default_factory=list)
    with_settings: With = field(default_factory=list)

    @property
    def limits(self) -> list[tuple[Question, float]]:
        """The questions with limits. Raises UserError for a repeated question, or a setting of any other question."""
        values: dict[str, float] = {}
        for entry in self.limit:
            name, equals, value = entry.partition("=")
            if not equals:
                raise UserError(f"--limit takes QUESTION=VALUE, got {entry!r}", "EPS-U015")
            if name in values:
                raise UserError(f"--limit names {name} twice; give one limit of each question", "EPS-U016")
            values[name] = number(value, f"--limit {name} must be a number in plain digits")
        return list(zip(questions(values, self.with_settings), values.values(), strict=True))


@dataclass(frozen=True)
class QuestionOptions:
    """A question and its settings."""

    question: Annotated[
        str,
        typer.Option(metavar="QUESTION", help=f"The question to use: {shipped('questions')}, or a .py file."),
    ] = "which_text"
    with_settings: With = field(default_factory=list)

    @property
    def chosen(self) -> Question:
        """The question, built with its settings. Raises UserError for a setting of another question."""
        return of_one(self.question, self.with_settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, without building the question. Raises UserError for a setting of another question."""
        return settings_by_question([self.question], self.with_settings)[self.question]

    @property
    def is_which_text(self) -> bool:
        """True for which_text, the question that audits the cells of a project."""
        return self.question == "which_text"

    def texts(self, file: Path, reading: TextOptions) -> list[str] | pl.DataFrame:
        """Return the texts of a file; for a question other than which_text, a table with the columns that it reads."""
        from epsilometer.questions.which_text import WhichText

        question = self.chosen
        return reading.distinct(file) if isinstance(question, WhichText) else reading.table(file, columns([question]))


def questions(names: Mapping[str, Any] | Sequence[str], with_settings: Sequence[str]) -> list[Question]:
    """Return questions, by name or path, with their settings. Raises UserError for a setting of any other question."""
    return [of_settings(name, of) for name, of in settings_by_question(names, with_settings).items()]


def of_settings(name: str, settings: Mapping[str, Any]) -> Question:
    """Return the question of this name or path, with these settings."""
    from epsilometer.auditing.question import question

    return question(name, settings)


def settings_by_question(
    names: Mapping[str, Any] | Sequence[str], with_settings: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the settings of each of these questions. Raises UserError for a setting of any other question."""
    settings: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in read_settings(with_settings, "--with").items():
        name, dot, setting = key.rpartition(".")
        if not dot or name not in settings:
            others = ", ".join(settings) or "nothing"
            raise UserError(
                f"{key} is not a setting of the questions asked ({others}); ask its question too, or leave it out",
                "EPS-U017",
            )
        settings[name][setting] = value
    return settings


def of_one(name: str, with_settings: Sequence[str]) -> Question:
    """Return a question with its settings, whose keys may omit the question's name."""
    named = [entry if "." in entry.partition("=")[0] else f"{name}.{entry}" for entry in with_settings]
    (question,) = questions([name], named)
    return question


def columns(asked_for: Sequence[Question]) -> list[str]:
    """Return the columns of the texts' file that these questions read."""
    return list(dict.fromkeys(name for question in asked_for for name in question.columns))
