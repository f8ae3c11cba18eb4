"""A question of params.yaml and its subject: the mechanism on the prepared data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.claims.verdicts import refuse_public
from epsilometer.auditing.identifiers.surviving import Identified
from epsilometer.auditing.question import FindsComponents, Need, OfGuesses, Question, check
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.text_audit import Pool, applicable, chosen_attacks
from epsilometer.auditing.trials.design import Design, as_installed, check_trials
from epsilometer.cells.adversaries import attacks
from epsilometer.core.attack import Checked, Embedded
from epsilometer.core.component import IDENTIFICATION, QUESTIONS, build, file, find
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.mechanism import budgets, build_mechanism, check_guarantees
from epsilometer.corpora import annotated
from epsilometer.corpora.joint import parts
from epsilometer.doors.record import record
from epsilometer.pipeline.question_params import QuestionParams
from epsilometer.project.corpora import corpus
from epsilometer.project.paths import audited
from epsilometer.project.sections import Cell
from epsilometer.text.words import words

_WHOLE = 1000  # a generator of more texts than this is not run before an audit


def asked_for(params: QuestionParams, name: str) -> Question:
    """Return the question of an entry. Raises UserError, naming the place, for an unknown setting."""
    entry = params.questions[name]
    named = params.question_name(entry)
    built: Question = build(find(QUESTIONS, named, "observe"), entry.settings, f"questions.{name}.settings")
    return built


def answered(params: QuestionParams, name: str) -> pl.DataFrame:
    """Return the figures of an entry on the prepared data set, schema `answers.ASKED`.

    Raises UserError if the data set lacks what the question needs, or if the mechanism's public texts include audited
    texts.
    """
    entry, question = params.questions[name], asked_for(params, name)
    of = subject(params, name, audited(params, entry.dataset))
    refuse_public(of.mechanism, of.pool.texts)
    epsilons = params.cell(entry).epsilons
    of = with_embeddings(params, question, of)
    figures = record(question, of, epsilons, trials=entry.trials, allowed=entry.limit)
    names = {"name": name, "dataset": entry.dataset, "mechanism": entry.mechanism}
    return figures.select(*(pl.lit(value).alias(column) for column, value in names.items()), *figures.columns)


def with_embeddings(params: QuestionParams, question: Question, of: Subject) -> Subject:
    """Return the subject, with embeddings by params.yaml's encoder if the question samples candidates by embedding."""
    if not of.design.temperature or not (isinstance(question, OfGuesses) or Need.CLAIM in question.needs):
        return of
    from epsilometer.models.encoder import Encoder

    model, precision = params.embedding.model, params.embedding.precision
    vectors = Encoder(model, precision).encode(of.pool.texts)
    return replace(of, pool=replace(of.pool, embedded=Embedded(model, precision, vectors)))


def subject(params: QuestionParams, name: str, table: pl.DataFrame) -> Subject:
    """Return the subject of an entry at the smallest of its privacy budgets. table: as for `subject_of`."""
    entry = params.questions[name]
    return subject_of(params, params.cell(entry), entry.mechanism, table, budgets_at=f"questions.{name}.epsilons")


def subject_of(params: QuestionParams, cell: Cell, mechanism: str, table: pl.DataFrame, *, budgets_at: str) -> Subject:
    """Return a mechanism on a data set at the smallest of its privacy budgets.

    mechanism: its key in `mechanisms`. table: the prepared texts of the audited split, with their labels. budgets_at:
    the place of the budgets in params.yaml.
    """
    dataset, place = params.datasets[cell.dataset], f"mechanisms.{mechanism}.settings"
    built = build_mechanism(str(params.code(cell)), cell.settings, cell.resource, place)
    epsilons = budgets(built, cell.epsilons, budgets_at)
    check_guarantees(built, epsilons)
    if isinstance(built, Checked):
        built.check(dataset.public)
    identified, matched = Identified.of(table), params.match(cell.dataset) == "words"
    groups = np.array([len(words(text)) for text in identified.texts]) if matched else None
    temperature = params.temperature(cell.dataset)
    design = Design(params.trials.candidates, temperature, params.audit.alpha, seed=params.audit.seed)
    return Subject(
        mechanism,
        built,
        float(min(epsilons)),
        pool=Pool(identified.texts, groups=groups),
        attacks=applicable(attacks(params) or chosen_attacks(None), built),
        design=as_installed(design),
        identified=identified,
        table=table,
    )


def code(params: QuestionParams, name: str) -> Iterator[Path]:
    """Yield the files behind the figures of an entry: those of its question, mechanism, attacks and metrics."""
    entry, built = params.questions[name], asked_for(params, name)
    yield file(QUESTIONS, params.question_name(entry))
    yield params.code(params.mechanisms[entry.mechanism])
    yield from (file(IDENTIFICATION, attack) for attack in attacks(params) or chosen_attacks(None))
    if isinstance(built, FindsComponents):
        yield from built.components


def check_questions(params: QuestionParams) -> None:
    """Build each question and its mechanism, and check that the question's columns and limit suit the data set.

    Raises UserError for a mismatch. Skips data sets that are not downloaded yet, and generators of many texts.
    """
    for name, entry in params.questions.items():
        place, dataset, built = f"questions.{name}", params.datasets[entry.dataset], asked_for(params, name)
        if entry.trials is not None:
            check_trials(entry.trials)
        columns = [*dict.fromkeys((*dataset.labels, *dataset.group, *dataset.sides))]
        for column in built.columns:
            if column not in columns and not {*parts(column)} <= {*columns}:
                raise unknown(f"label of {entry.dataset} that {place} reads", column, columns)
        source = Path(params.path(dataset.source))
        if not source.exists() or (source.suffix == ".json" and not annotated.holds(source)):
            continue
        if source.suffix == ".py" and (dataset.count or 0) > _WHOLE:
            continue  # stage `asked` checks the question
        of = subject(params, name, corpus(params, entry.dataset).table.filter(split=dataset.use))
        check(built, of)
        if entry.limit is not None:
            try:
                built.limit(of, entry.limit)
            except UserError as error:
                raise error.at(f"{place}.limit") from error
