"""The section `questions` of params.yaml: questions about a mechanism on a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveInt, model_validator

from epsilometer.cells.params import TextsParams
from epsilometer.core.component import QUESTIONS
from epsilometer.core.component import file as component_file
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import check_epsilons
from epsilometer.project import params
from epsilometer.project.confinement import strings
from epsilometer.project.references import check_dataset
from epsilometer.project.sections import Cell, Number, Section


class QuestionEntry(Section):
    """A question about a mechanism on a data set."""

    question: str = Field(
        description="The question: one of `epsilometer list questions`, or a Python file from the project's folder."
    )
    settings: Mapping[str, Any] = Field({}, description="Settings of the question, by name.")
    dataset: str = Field(description="The data set whose texts are rewritten. Questions read its labels as columns.")
    mechanism: str = Field(description="The mechanism: a key of `mechanisms`.")
    epsilon: Number | None = Field(None, description="A single privacy budget, in place of `epsilons`.")
    epsilons: tuple[Number, ...] | None = Field(
        None, description="The privacy budgets; null takes those of the mechanism's entry."
    )
    trials: PositiveInt | None = Field(
        None,
        description="The number of trials at each budget; null: the question's usual number. Trials and noise depend "
        "on `audit.seed` but not on `audit.round`.",
    )
    limit: Number | None = Field(
        None,
        description="The largest allowed value of each figure, for `similarity` the smallest. null: the figures have "
        "no limit and no status.",
    )

    @model_validator(mode="after")
    def _budgets_once(self) -> QuestionEntry:
        if self.epsilon is not None and self.epsilons is not None:
            raise ValueError("epsilon and epsilons are both given; give one of them")
        return self

    @property
    def budgets(self) -> tuple[float, ...] | None:
        """The entry's own privacy budgets; None if the mechanism's entry has them."""
        return self.epsilons if self.epsilon is None else (self.epsilon,)


class QuestionParams(TextsParams):
    """The sections of params.yaml that questions read, such as trials, attacks and the encoder."""

    questions: Mapping[str, QuestionEntry] = Field(
        {},
        description="Questions about mechanisms, in addition to `cells`. DVC reruns an entry when its inputs change.",
    )

    def check(self) -> None:
        """Check as `TextsParams.check` does, and check the name, data set, mechanism and epsilons of each question."""
        super().check()
        for name, entry in self.questions.items():
            place = f"questions.{name}"
            check_dataset(self.datasets, entry.dataset, place)
            if entry.mechanism not in self.mechanisms:
                raise unknown(f"mechanism in {place}", entry.mechanism, self.mechanisms)
            if entry.budgets is not None:
                check_epsilons(entry.budgets, f"{place}.epsilons")
            if not entry.question.endswith(".py"):
                try:
                    component_file(QUESTIONS, entry.question)
                except UserError as error:
                    raise error.at(f"{place}.question") from error

    def cell(self, entry: QuestionEntry) -> Cell:
        """Return the mechanism of a question on its data set, at the question's budgets."""
        mechanism = self.mechanisms[entry.mechanism].model_dump()
        if entry.budgets is not None:
            mechanism["epsilons"] = entry.budgets
        return Cell(dataset=entry.dataset, **mechanism)

    def question_name(self, entry: QuestionEntry) -> str:
        """Return a question's name, or the path of its file from the run's folder."""
        return self.path(entry.question) if entry.question.endswith(".py") else entry.question

    def sections_of_cells(self) -> Iterator[tuple[str, Mapping[str, Cell]]]:
        """Yield the sections of `ProjectParams.sections_of_cells`, then the mechanisms of questions."""
        yield from super().sections_of_cells()
        if self.questions:
            yield "questions", {name: self.cell(entry) for name, entry in self.questions.items()}

    def studied(self) -> Iterator[tuple[str, bool]]:
        """Yield `questions`, then the sections of `ProjectParams.studied`."""
        yield "questions", bool(self.questions)
        yield from super().studied()

    def code_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `TextsParams.code_paths`, then the files of questions."""
        yield from super().code_paths()
        for name, entry in self.questions.items():
            if entry.question.endswith(".py"):
                yield f"questions.{name}.question", entry.question

    def read_paths(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of `TextsParams.read_paths`, then the settings of questions."""
        yield from super().read_paths()
        for name, entry in self.questions.items():
            yield from strings(entry.settings, f"questions.{name}.settings")


def recorded_path(name: str) -> Path:
    """Return the path of a question's figures (schema `answers.ASKED`)."""
    return Path(f"data/asked/{name}.parquet")


def read(path: Path | str = "params.yaml") -> QuestionParams:
    """Return the parameters that questions read, as `project.params.read` reads them."""
    return params.read(QuestionParams, path)
