"""Options that name questions, their settings and limits on their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import number, read_settings, shipped
from epsilometer.core.errors import UserError

if TYPE_CHECKING:
    from epsilometer.auditing.question import Question

With = Annotated[
    list[str],
    typer.Option(
        "--with",
        metavar="QUESTION.KEY=VALUE",
        help="A setting of a question, as linking.author=COLUMN (`epsilometer list questions`).",
    ),
]


@dataclass(frozen=True)
class LimitOptions:
    """Limits on the figures of questions."""

    limit: Annotated[
        list[str],
        typer.Option(
            metavar="QUESTION=VALUE",
            help=f"The largest figure allowed (of similarity the smallest): {shipped('questions')}, or a .py file.",
        ),
    ] = field(default_factory=list)
    with_settings: With = field(default_factory=list)

    @property
    def limits(self) -> list[tuple[Question, float]]:
        """The questions with their limits. Raises UserError for a question named twice, and settings of another one."""
        values: dict[str, float] = {}
        for entry in self.limit:
            name, equals, value = entry.partition("=")
            if not equals:
                raise UserError(f"--limit takes QUESTION=VALUE, got {entry!r}")
            if name in values:
                raise UserError(f"--limit names {name} twice; give one limit of each question")
            values[name] = number(value, f"--limit {name} must be a number in plain digits")
        return list(zip(questions(values, self.with_settings), values.values(), strict=True))


def questions(names: Mapping[str, Any] | Sequence[str], with_settings: Sequence[str]) -> list[Question]:
    """Return the questions of these names or paths, with their settings. Raises UserError for settings of others."""
    from epsilometer.auditing.question import question

    settings: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in read_settings(with_settings, "--with").items():
        name, dot, setting = key.rpartition(".")
        if not dot or name not in settings:
            others = ", ".join(settings) or "nothing"
            raise UserError(
                f"{key} is a setting of no question that is asked ({others}); ask its question too, or leave it out"
            )
        settings[name][setting] = value
    return [question(name, of) for name, of in settings.items()]


def of_one(name: str, with_settings: Sequence[str]) -> Question:
    """Return a question with its settings, whose keys may go without its name."""
    named = [entry if "." in entry.partition("=")[0] else f"{name}.{entry}" for entry in with_settings]
    (question,) = questions([name], named)
    return question


def columns(asked_for: Sequence[Question]) -> list[str]:
    """Return the columns of the texts' file that these questions read."""
    return list(dict.fromkeys(name for question in asked_for for name in question.columns))
