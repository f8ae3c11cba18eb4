"""`epsilometer ask`: the figures of any question about a mechanism, a program, a service, or recorded rewrites."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epsilometer.cli.asking import With, of_one
from epsilometer.cli.options import (
    Alpha,
    Attacks,
    Columns,
    Epsilons,
    Json,
    Rewriting,
    Seed,
    Temperature,
    TextOptions,
    Trials,
    Vectors,
    numbers,
    read_settings,
    shipped,
    told_if_dry,
)
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError
from epsilometer.core.readable import check_readable
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.auditing.question import Question, Table, TableRequest
    from epsilometer.auditing.trials.design import Design


@cache
def _until_exit() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for the resource made from --vectors. It exists until the command ends."""
    return tempfile.TemporaryDirectory(prefix="epsilometer-")


@dataclass(frozen=True)
class RewriteSource(Rewriting):
    """The rewrites' source: a mechanism, program or service on a file's texts, or a file of recorded rewrites."""

    rewrites: Annotated[
        Path | None,
        typer.Option(help="File of recorded rewrites: columns original, rewrite and, if there are budgets, epsilon."),
    ] = None
    epsilons: Epsilons = None
    vectors: Vectors = None

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The settings of `Rewriting.chosen`, including the word vectors of --vectors."""
        chosen = super().chosen
        if self.vectors is None:
            return chosen
        if chosen is None:
            raise UserError("--vectors has no effect without --mechanism; leave it out", "EPS-U080")
        from epsilometer.auditing.text_audit import on_vectors

        return on_vectors(str(self.mechanism), chosen, self.vectors, Path(_until_exit().name))

    def check(self, question: Question) -> None:
        """Refuse two sources, no source, a missing FILE, and options that have no effect with the source."""
        self.check_source(self.rewrites, "--rewrites")
        reads_file = self.rewrites is None or bool(question.columns)
        if reads_file and self.file is None:
            read = f", with the column {', '.join(question.columns)}" if question.columns else ""
            raise UserError(f"give a FILE of texts{read or '; only --rewrites works without one'}", "EPS-U009")
        if self.rewrites is not None and (self.epsilons or (self.file and not reads_file)):
            raise UserError("leave out FILE and --epsilons: --rewrites has texts and epsilons of its own", "EPS-U010")
        self.check_needs()

    def request(
        self, question: Question, reading: TextOptions, *, drawing: Drawing, guessing: Guessing, design: Design
    ) -> TableRequest:
        """Return the request for a question's table. Raises UserError for unreadable files, and values out of range."""
        from epsilometer.auditing.external import recorded
        from epsilometer.auditing.question import TableRequest

        rewrites = None if self.rewrites is None else recorded(self.rewrites, reading.files.layout)
        return TableRequest(
            None if self.file is None else reading.table(self.file, question.columns),
            None if rewrites is not None else self.rewriter,
            self.chosen,
            rewrites=rewrites,
            epsilons=numbers(self.epsilons, "--epsilons must be numbers separated by commas"),
            attacks=guessing.chosen,
            trials=drawing.trials,
            design=design,
            columns=guessing.columns,
            read=_reader(reading),
        )


@dataclass(frozen=True)
class Drawing:
    """Options for the number of trials, their sampling, and the error of their bounds."""

    trials: Trials = None
    candidates: Annotated[
        str, typer.Option(help="Size k of each candidate set; `all` takes every text as a candidate.")
    ] = "2"
    temperature: Temperature = -10_000
    alpha: Alpha = 0.01
    seed: Seed = 0

    @property
    def design(self) -> Design:
        """The design of the trials, as questions take it."""
        from epsilometer.auditing.trials.design import Design

        assert self.temperature is not None, "it has a default"
        return Design(_size(self.candidates), self.temperature, self.alpha, self.seed)


@dataclass(frozen=True)
class Guessing:
    """Options for the attacks, and for the columns to print."""

    attacks: Attacks = None
    attack_settings: Annotated[
        list[str], typer.Option("--attack-set", metavar="ATTACK.KEY=VALUE", help="A setting of an attack.")
    ] = field(default_factory=list)
    columns: Columns = None

    @property
    def chosen(self) -> dict[str, dict[str, Any]] | None:
        """The attacks with their settings, by name; None for the default attacks."""
        if self.attacks is None and not self.attack_settings:
            return None
        if self.attacks is None:
            raise UserError("--attack-set needs --attacks, which names the attacks to run", "EPS-U011")
        chosen: dict[str, dict[str, Any]] = {}
        for name in self.attacks.split(","):
            if name in chosen:
                raise UserError(f"--attacks names {name!r} twice", "EPS-U012")
            chosen[name] = {}
        for key, value in read_settings(self.attack_settings, "--attack-set").items():
            attack, dot, setting = key.rpartition(".")
            if not dot or attack not in chosen:
                raise UserError(
                    f"--attack-set takes ATTACK.KEY=VALUE for one of {', '.join(chosen)}, got {key!r}; name the attack "
                    "in --attacks too",
                    "EPS-U013",
                )
            chosen[attack][setting] = value
        return chosen


def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help=f"One of {shipped('questions')}, or the path of a .py file.")
    ],
    source: RewriteSource,
    drawing: Drawing,
    guessing: Guessing,
    reading: TextOptions,
    with_settings: With = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Answer a question about a mechanism's rewrites.

    `epsilometer list questions` describes each question and its settings. Prints a row for each epsilon and figure,
    with bounds. Each bound is wrong with probability alpha / 2. --columns all and --json add all other columns.
    """
    of = of_one(question, with_settings)
    source.check(of)
    reading.files.check(source.file, source.rewrites, *(path for path in vars(of).values() if isinstance(path, Path)))
    request = source.request(of, reading, drawing=drawing, guessing=guessing, design=drawing.design)
    answer(of, request, as_json)


def answer(question: Question, request: TableRequest, as_json: bool) -> pl.DataFrame:
    """Print the table of a question, in the question's own form if it has one, and return the whole table."""
    with told_if_dry(), withheld():
        table = _table(question, request)
    if as_json:
        named = _named_columns(request, table)
        show(table.data.to_dicts(), as_json, named)
    else:
        for number, part in enumerate(table.parts):
            if number:
                tell("")
            show(part.rows, as_json, part.columns)
    return table.data


def _table(question: Question, request: TableRequest) -> Table:
    from epsilometer.auditing.question import Table, Tabled
    from epsilometer.auditing.subject import subject
    from epsilometer.doors.ask import ANSWERS, Answers
    from epsilometer.doors.ask import ask as ask_question

    own = question.table(request) if isinstance(question, Tabled) else None
    if own is not None:
        return own
    columns = request.shown(ANSWERS, Answers.short)
    rewriter, texts, epsilons = request.rewriter, request.texts, request.epsilons
    assert texts is not None, "a mechanism rewrites texts"
    first = None if epsilons is None else epsilons[0]
    of = subject(texts, rewriter, first, request.attacks, settings=request.settings, design=request.design)
    return Table.of(ask_question(question, of, epsilons, request.trials), columns)


def _named_columns(request: TableRequest, table: Table) -> Sequence[str] | None:
    from epsilometer.auditing.results.losses import chosen

    return None if request.columns is None else chosen(request.columns, table.data.columns, ())


def _reader(reading: TextOptions) -> Any:
    def read(path: Path, columns: Sequence[str]) -> pl.DataFrame:
        check_readable(path)
        return reading.table(path, columns)

    return read


def _size(text: str) -> int | Literal["all"]:
    if text == "all":
        return "all"
    try:
        return int(text)
    except ValueError:
        raise UserError(f"--candidates must be a whole number or `all`, got {text!r}", "EPS-U014") from None
