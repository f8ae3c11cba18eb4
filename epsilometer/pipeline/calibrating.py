"""The nominal epsilon at which a loss meets a target: for texts, or for the cells of a project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.calibration.sampled import Watch, unwatched
from epsilometer.auditing.question import Question, question
from epsilometer.auditing.results.losses import Printed
from epsilometer.auditing.text_audit import Named
from epsilometer.auditing.trials.design import STANDARD, Design
from epsilometer.auditing.trials.unread import say, unread
from epsilometer.cells.calibrating.losses import (
    ROW,
    STANDARD_SEARCH,
    Search,
    calibrate_cell,
    check_names,
    progress,
)
from epsilometer.core.errors import UserError
from epsilometer.core.study import studies
from epsilometer.doors.calibrate import Searched, calibrate_on, check_search, searched, with_search
from epsilometer.doors.calibrate import calibrate as search_by
from epsilometer.pipeline.asking import subject_of, with_embeddings
from epsilometer.pipeline.params import Params, read
from epsilometer.project.paths import audited, inside
from epsilometer.project.sections import Cell
from epsilometer.questions.which_text import WhichText


class Calibrations(Printed):
    """The table of searches; it prints the epsilons, or the reasons for missing epsilons."""

    short = ("dataset", "mechanism", "target", "status", "epsilon", "low", "high", "reason")


def calibrate(
    source: Sequence[str] | pl.DataFrame | str | Path,
    mechanisms: Named | Sequence[Named] = (),
    *,
    target: float,
    settings: Mapping[str, Any] | None = None,
    datasets: Sequence[str] = (),
    search: Search = STANDARD_SEARCH,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Find the nominal epsilon at which each mechanism's loss meets a target, in nats.

    source: the texts; a table of texts (column `text`), with the columns that `search.question` reads; or the folder of
    a project whose data sets an audit prepared.
    mechanisms: on texts, one or more mechanisms, each as in `epsilometer.audit`, with `settings`. In a project, names
    of mechanisms (by default all); the project's params.yaml has their settings, attacks and design.
    datasets: names of a project's data sets; by default all. The search runs in the project's folder.

    Returns a row per mechanism and data set. The table prints eight of these columns:
    - dataset, mechanism, target;
    - sees: the view of the attacks, as in `Search`;
    - status: the status of the search, as in `sampled.Calibrated`;
    - epsilon: the epsilon at which the loss is expected to meet the target; null if no epsilon does;
    - low, high: an interval for epsilon, at confidence 1 - alpha, or with certainty if the loss is exact;
    - trials: the number of rewrites;
    - by: the measure of the search: `hits`; `posteriors`, which need fewer rewrites but assume that the mechanism's law
    is right; or the exact measure;
    - attacks: the attacks whose loss counted, null without attacks; rows with different attacks cannot be compared;
    - reason: why no epsilon was found, or a remark on the epsilon; else null.

    Raises UserError for invalid names and values, before any text is rewritten.
    """
    named = [mechanisms] if isinstance(mechanisms, str) or not isinstance(mechanisms, Sequence) else mechanisms
    if isinstance(source, (str, Path)):
        names = [str(mechanism) for mechanism in named if isinstance(mechanism, (str, Path))]
        if settings or design != STANDARD or len(names) < len(named):
            raise UserError(
                "a project has settings and design in params.yaml; give only the names of its mechanisms", "EPS-P002"
            )
        with inside(source):
            watch = partial(progress, search=search)
            rows = list(calibrate_cells(read(), target, search, mechanisms=names, datasets=datasets, watch=watch))
    else:
        if not named or datasets:
            raise UserError(
                "texts need at least one mechanism and take no datasets; give mechanisms, and leave out datasets",
                "EPS-P003",
            )
        rows = [
            calibrate_on(source, mechanism, target, search, settings=settings, design=design) for mechanism in named
        ]
    return Calibrations(rows, schema=ROW)


def calibrate_cells(
    params: Params,
    target: float,
    search: Search = STANDARD_SEARCH,
    mechanisms: Sequence[str] = (),
    datasets: Sequence[str] = (),
    watch: Callable[[str], Watch] = lambda label: unwatched,
) -> Iterator[dict[str, Any]]:
    """Yield a row per cell of the parameter file, for these mechanisms and data sets; by default for all.

    Reads the data sets that the audit prepared. A search by which_text stores counts in data/calibrating. A search
    by another question stores nothing, and runs for each mechanism on each data set. watch: takes a cell's label, and
    returns the function to call during the cell's search. Raises UserError for unknown names, before any text is
    rewritten.
    """
    search.goal(target)
    search.aim(target)  # refuses an invalid target
    by = question(search.question)
    if not isinstance(by, WhichText):
        yield from calibrate_by(params, by, target, search=search, mechanisms=mechanisms, datasets=datasets)
        return
    check_names(params, mechanisms, datasets, search.attack)
    for study in studies():
        if (searched_by := study.searches().get(search.measure)) is not None:
            yield from searched_by(params, target, search, mechanisms=mechanisms, datasets=datasets)
            return
    for cell in params.cells.values():
        if (not mechanisms or cell.mechanism in mechanisms) and (not datasets or cell.dataset in datasets):
            yield calibrate_cell(params, cell, target, search=search, watch=watch)


def calibrate_by(
    params: Params,
    question: Question,
    target: float,
    search: Search,
    mechanisms: Sequence[str] = (),
    datasets: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """Yield a row per mechanism and data set of the parameter file, searched by the figure of a question.

    Raises UserError for unknown names, and for search options without effect on the question. If a mechanism cannot be
    searched on a data set, its row states the reason.
    """
    check_search(question, search)
    check_names(params, mechanisms, datasets, search.attack)
    for dataset in datasets or params.datasets:
        for name in mechanisms or params.mechanisms:
            row = {"dataset": dataset, "mechanism": name, "target": target, "sees": None}
            yield row | searched(partial(_by_question, params, (name, dataset), question, target, search=search))


def _by_question(params: Params, at: tuple[str, str], question: Question, target: float, *, search: Search) -> Searched:
    """Search for the epsilon of a mechanism on a data set."""
    name, dataset = at
    cell = Cell(dataset=dataset, **params.mechanisms[name].model_dump())
    if cell.epsilons is None:
        raise UserError(f"{name} has no privacy budget, so there is none to calibrate; audit it instead", "EPS-P005")
    if len(cell.epsilons) < 2 and None in (search.low, search.high):
        raise UserError(
            "params.yaml gives it one epsilon, which is not a range to search; give low and high", "EPS-P006"
        )
    ends = search.goal(target, min(cell.epsilons), max(cell.epsilons))
    of = subject_of(params, cell, name, audited(params, dataset), budgets_at=f"mechanisms.{name}.epsilons")
    say(unread(of.mechanism, of.pool.texts))
    of = with_search(with_embeddings(params, question, of), search)
    return search_by(question, of, target, replace(search, low=ends.low, high=ends.high))
