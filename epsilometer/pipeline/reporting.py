"""The report, as a page and as tables of data, from the sections of the core and of studies."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from epsilometer.core.study import studies
from epsilometer.pipeline.params import Params
from epsilometer.pipeline.report import licences, questions
from epsilometer.project import times
from epsilometer.report import archive, closing, origin, page
from epsilometer.report.archive import Run
from epsilometer.report.body import Body
from epsilometer.report.cells import (
    ablations,
    claims,
    curves,
    datasets,
    exact_loss,
    examples,
    first_screen,
    known_loss,
    look,
    possible,
    similarity,
    survivors,
    sweeps,
    ways,
    worst_case,
    worth,
)
from epsilometer.report.cells.results import TextResults
from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.runtime.machine import hardware

# In the page's order. A section without rows returns None, and is left out.
_OF_TEXTS: tuple[Callable[[TextResults], Section | None], ...] = (
    first_screen.section,
    first_screen.basis,
    ways.section,
    survivors.section,
    examples.section,
    curves.section,
    exact_loss.section,
    claims.section,
    worst_case.section,
    similarity.section,
    worth.section,
    possible.section,
    sweeps.section,
    ablations.section,
    look.section,
)


def sections(params: Params, texts: TextResults | None = None) -> list[Section]:
    """Return the sections of the core, and of the studies in params.yaml. texts: results that were already read.

    Raises UserError for a table that lacks a column, and for texts of a data set that is not marked public.
    """
    texts = texts or TextResults(params)
    results: Results[Any] = Results(params, texts.held)  # Any, because each section reads another part of params.yaml
    every = [section(texts) for section in _OF_TEXTS] if params.cells else []
    every += [questions.section(results)]
    for study in studies():
        every += [import_module(section).section(results) for section in study.sections]
    every += [known_loss.section(texts)] if params.cells else []
    return [section for section in every if section is not None]


def body(params: Params, texts: TextResults | None = None) -> Body:
    """Return the body of a run's page. texts: as in `sections`."""
    texts = texts or TextResults(params)
    estimates, audited = texts.estimates, bool(params.cells)
    own, of_datasets = (datasets.settings(texts), datasets.rows(texts)) if audited else ({}, [])
    return Body(
        title=params.title,
        sections=sections(params, texts),
        closing=[
            *([closing.reading(params.audit.alpha)] if audited else []),
            closing.settings(params, own, of_datasets),
        ],
        mechanisms=[*estimates["mechanism"], *params.mechanisms_shown()],
        controls=estimates.filter("control")["mechanism"].unique().sort().to_list(),
        last=[licences.section(params)],
    )


def write_tables(params: Params, out: Path | None = None, texts: TextResults | None = None) -> Path:
    """Write all tables of the run in the current folder as data, with their figures.

    out: the folder, by default results/PROFILE of the project. Returns the folder. Raises UserError without a finished
    run.
    """
    texts = texts or TextResults(params)
    facts, profile, seconds = page.facts(), origin.profile(Path()), times.read()
    every = sections(params, texts)
    shown = [table for section in every for table in section.tables] + [origin.times(seconds)]
    grids = [table.grid() for table in shown if table.in_results]
    run = Run(
        title=f"{profile}: {params.title}",
        command="epsilometer results tables",
        profile=profile,
        date=facts["date"],
        commit=facts["commit"],
        hardware=hardware(),
        stages=len(seconds) or None,
        minutes=round(sum(seconds.values()) / 60) if seconds else None,
        about=[_about(params)],
        tables=grids,
    )
    figures = [figure for section in every for figure in section.figures]
    figures += filter(None, [look.composed(texts)] if params.cells else [])
    named = {grid.picture for grid in grids}
    pictures = {name: figure.svg for figure in figures if (name := f"{figure.name}.svg") in named}
    return archive.write(run, out or Path(params.root) / archive.RESULTS / profile, pictures)


def _about(params: Params) -> str:
    audit, names = params.audit, studied(params)
    if params.cells:
        return datasets.sentence(params, names)
    return f"Data sets: {', '.join(names)}. alpha = {audit.alpha:g}, seed {audit.seed}, round {audit.round}."


def studied(params: Params) -> list[str]:
    """Return the data sets that a study uses, in the order of params.yaml."""
    names = {*params.datasets_studied()}
    return [name for name in params.datasets if name in names]


def first_tables(params: Params) -> dict[str, list[dict[str, Any]]] | None:
    """Return the first table of each section, by the table's heading. None for a run that audits texts."""
    if params.cells:
        return None
    firsts = (next(table for table in section.tables if table.in_results) for section in sections(params))
    return {table.heading: [dict(row) for row in table.rows] for table in firsts}
