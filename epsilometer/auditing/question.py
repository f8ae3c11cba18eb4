"""The interface of a question about a release. Each question is a file in `epsilometer/questions`.

A question states its needs, observes a subject, and returns evidence, without intervals or errors. The ways to ask
(`epsilometer/doors`) choose errors, compute bounds from the evidence, and compare these bounds with a limit, a target,
another subject or a baseline. So each question can be asked in every way that its `needs` and `gives` allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.evidence.evidence import Confident, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit
from epsilometer.auditing.gate_statistics import Errors
from epsilometer.auditing.results.losses import chosen
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import Attacks, Named
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.core.component import QUESTIONS, build, find
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import has_budget
from epsilometer.corpora.joint import parts


class Need(StrEnum):
    """Requirements of a question."""

    COLUMNS = "columns of the texts' file"
    CLAIM = "a claim"
    BUDGET = "a privacy budget that can be set"


class Gives(StrEnum):
    """Properties of a question's evidence.

    LOW: the evidence gives a lower bound of the figure. HIGH: it gives an upper bound. OUTCOMES: it has a number for
    each independent trial. MORE: further trials can be added until a limit is decided.
    """

    LOW = "lower bound"
    HIGH = "upper bound"
    OUTCOMES = "outcomes of trials"
    MORE = "more trials"


@dataclass(frozen=True)
class Observed:
    """The evidence about one figure, and the outcomes behind it.

    values: float [n], the outcomes of independent trials in [0, 1], in an order that depends only on the trials; empty
    without outcomes. of_texts: a pair per rewritten text: the text, and True for a right guess, link or inference, or a
    surviving identifier. row: further columns of the question.
    """

    evidence: Evidence
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)
    of_texts: Sequence[tuple[str, bool]] = field(default=(), repr=False)
    row: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the figure, such as an attack, a kind of identifier or a metric."""
        return self.evidence.of


class Question(Protocol):
    """A question. The fields of its class are its settings.

    needs: what a subject must have. gives: properties of the evidence. usual: the default number of trials.
    """

    needs: ClassVar[frozenset[Need]]
    gives: ClassVar[frozenset[Gives]]
    usual: ClassVar[int]

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the texts' file that the question reads, in addition to `text`."""
        ...

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the figures. Raises UserError for a value that trials cannot test."""
        ...

    def tests(self, of: Subject) -> Sequence[str]:
        """Return the names of the figures, before anything is rewritten."""
        ...

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return a number of trials that can show a kept limit to be kept, and an exceeded limit to be exceeded.

        budget: the largest number of rewrites. tests: the number of all limits, which share alpha. Raises UserError if
        no number within the budget can do both.
        """
        ...

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence from `count` fresh trials. The subject's seed names the random streams.

        Subjects with the same seed and texts have the same trials.
        """
        ...


@runtime_checkable
class ShownByLaw(Protocol):
    """A question for which a mechanism's stated law may prove that the limit is kept, before any attack runs."""

    def by_law(self, of: Subject, limit: Limit, budget: int, *, errors: Errors) -> tuple[Observed | None, str | None]:
        """Return the evidence of a law that proves the limit kept, or the reason to ignore this law.

        If rewrites refute the law or cannot test it, the evidence is None and the reason is given. If the law is
        missing or does not prove the limit kept, both are None.
        """
        ...


@runtime_checkable
class OfGuesses(Protocol):
    """A question that counts the guesses of the game among candidate texts, batch after batch (`Gives.MORE`)."""

    learns: ClassVar[bool]

    def learn(self, of: Subject, guessed: Sequence[Any]) -> Sequence[Any]:
        """Return, for each attack, thresholds learnt from separate trials; None for each if `learns` is False."""
        ...

    def count(self, learnt: Sequence[Any], guessed: Sequence[Any]) -> Sequence[Hits | Confident]:
        """Return the counts of each attack in a batch. guessed: `calibration.search.Guessed`, one per attack."""
        ...


@runtime_checkable
class FindsComponents(Protocol):
    """A question that finds attacks or metrics by name."""

    @property
    def components(self) -> Sequence[Path]:
        """The files of these components, which a project records as code of the question."""
        ...


@dataclass(frozen=True)
class TableRequest:
    """A user's request for the table of a question.

    texts: a table with the column `text` and the columns that the question reads. mechanism, settings, epsilons,
    attacks, design: as in `epsilometer.audit`. rewrites: recorded rewrites instead of a mechanism, with the columns
    original, rewrite and, if there are several budgets, epsilon. trials: the number of trials, None for the question's
    usual number. columns: names of columns to print, separated by commas, or `all`. read: a function that reads named
    columns of another file in the same way as the texts.
    """

    texts: pl.DataFrame | None = None
    mechanism: Named | None = None
    settings: Mapping[str, Any] | None = None
    rewrites: pl.DataFrame | None = None
    epsilons: Sequence[float] | None = None
    attacks: Attacks | None = None
    trials: int | None = None
    design: Design = STANDARD
    columns: str | None = None
    read: Callable[[Path, Sequence[str]], pl.DataFrame] | None = None

    @property
    def rewriter(self) -> Named:
        """The mechanism. Raises UserError if recorded rewrites are given instead."""
        if self.mechanism is None:
            raise UserError(
                "this question chooses the texts to rewrite; give a mechanism instead of recorded rewrites", "EPS-A150"
            )
        return self.mechanism

    def measured(
        self, measure: Callable[..., pl.DataFrame], usual: int, schema: Mapping[str, Any], short: Sequence[str]
    ) -> Table:
        """Run an audit with the parameters of `epsilometer.audit`, and return its table.

        usual: the default number of trials. schema: the columns of the table. short: the columns printed by default.
        """
        columns, rewriter = self.shown(schema, short), self.rewriter
        assert self.texts is not None, "a mechanism rewrites texts"
        texts, trials = self.texts["text"].to_list(), usual if self.trials is None else self.trials
        of = {"trials": trials, "settings": self.settings, "design": self.design}
        return Table.of(measure(texts, rewriter, self.epsilons, self.attacks, **of), columns)

    def shown(self, schema: Mapping[str, Any], short: Sequence[str]) -> Sequence[str]:
        """Return the columns to print: the requested ones of the schema, or the short list."""
        return chosen(self.columns, list(schema), short)

    def check_unused(self, *names: str) -> None:
        """Raise UserError if one of these fields is set, since the question does not read it."""
        usual = {part.name: part.default for part in fields(self)}
        if idle := [f"--{name}" for name in names if getattr(self, name) != usual[name]]:
            raise UserError(f"this question does not read {', '.join(idle)}; leave out what has no effect", "EPS-A151")


@dataclass(frozen=True)
class Part:
    """Rows that are printed as one table. columns: names of the columns to print, None for all."""

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str] | None = None


@dataclass(frozen=True)
class Table:
    """The table of a question. data: all results. parts: the tables to print, one after another."""

    data: pl.DataFrame
    parts: Sequence[Part]

    @classmethod
    def of(cls, data: pl.DataFrame, columns: Sequence[str] | None = None) -> Table:
        """Return a table with one part; rows of the strongest attack show its name."""
        return cls(data, [Part([_named(row) for row in data.iter_rows(named=True)], columns)])


@runtime_checkable
class Tabled(Protocol):
    """A question whose audit has a special table, with more columns than `doors.ask` prints for every question."""

    def table(self, request: TableRequest) -> Table | None:
        """Return the table; None if the common table of all questions is enough.

        Raises UserError for values outside their range, before any model loads.
        """
        ...


def question(named: str | Path | Question, settings: Mapping[str, Any] | None = None) -> Question:
    """Build a question by its name or the path of a file, with these settings; an object is returned unchanged."""
    if not isinstance(named, (str, Path)):
        return named
    built: Question = build(find(QUESTIONS, str(named), "observe"), settings or {}, f"questions.{named}")
    return built


def by_figure(observed: Sequence[Observed]) -> list[list[Observed]]:
    """Group observations by figure, in their order: several sources may give evidence about one figure."""
    groups: dict[str, list[Observed]] = {}
    for each in observed:
        groups.setdefault(each.name, []).append(each)
    return list(groups.values())


def check(question: Question, of: Subject) -> None:
    """Raise UserError if a subject lacks what a question needs."""
    there = {*of.columns}
    if missing := [name for name in question.columns if name not in there and not {*parts(name)} <= there]:
        raise UserError(
            f"{type(question).__name__} reads the column{'s' * (len(missing) > 1)} {', '.join(missing)} of the texts' "
            f"file, which has {', '.join(of.columns)}; name another column",
            "EPS-A152",
        )
    if Need.CLAIM in question.needs and of.mechanism.guarantee(of.epsilon) is None:
        raise UserError(f"{of.name} has no claim to test; ask which_text or worst_pair", "EPS-A153")
    if Need.BUDGET in question.needs and not has_budget(of.mechanism):
        raise UserError(f"{of.name} takes no privacy budget", "EPS-A154")


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    best = row.get("best_attack")
    return {**row, "attack": f"{row['attack']}: {best}"} if best is not None else dict(row)
