"""What each study shows, put together: the page, and the tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from epsilometer.pipeline.params import Params
from epsilometer.report import markdown, settings
from epsilometer.report.body import Body
from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.studies.anonymity.params import AnonymityParams
from epsilometer.studies.anonymity.report import markdown as anonymity_tables
from epsilometer.studies.anonymity.report import section as anonymity
from epsilometer.studies.texts.report import (
    ablations,
    claims,
    curves,
    datasets,
    exact_loss,
    examples,
    known_loss,
    look,
    numbers,
    possible,
    reading,
    similarity,
    strongest,
    summary,
    sweeps,
    worst_case,
    worth,
)
from epsilometer.studies.texts.report import markdown as text_tables
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.training.params import TrainingParams
from epsilometer.studies.training.report import markdown as training_tables
from epsilometer.studies.training.report import section as training

# In the page's order. A section whose tables are empty is None, and absent.
_OF_TEXTS: tuple[Callable[[TextResults], Section | None], ...] = (
    known_loss.section,
    worth.section,
    possible.section,
    curves.section,
    exact_loss.section,
    numbers.section,
    claims.section,
    worst_case.section,
    strongest.section,
    look.section,
    ablations.section,
    sweeps.section,
    similarity.section,
)


def body(params: Params, texts: TextResults | None = None) -> Body:
    """What the page of a run shows: of every study that params.yaml names, and of no other. texts: results read before.

    Raises UserError for a table that lacks a column, and for texts of a data set that is not marked public.
    """
    texts = texts or TextResults(params)
    anonymised: Results[AnonymityParams] = Results(params, texts.held)
    trained: Results[TrainingParams] = Results(params, texts.held)
    estimates, audited = texts.estimates, bool(params.cells)
    sections = [section(texts) for section in _OF_TEXTS] if audited else []
    sections += [anonymity.section(anonymised), training.section(trained)]
    sections += [examples.section(texts)] if audited else []
    own, of_datasets = (datasets.settings(texts), datasets.datasets(texts).to_dicts()) if audited else ({}, [])
    closing = [reading.section(texts)] if audited else []
    return Body(
        title=params.title,
        first_screen=[summary.section(texts)] if audited else [],
        sections=[section for section in sections if section is not None],
        closing=[*closing, settings.section(params, own, of_datasets)],
        mechanisms=[*estimates["mechanism"], *(cell.mechanism for cell in params.anonymity.values())],
        controls=estimates.filter("control")["mechanism"].unique().sort().to_list(),
    )


def write_tables(params: Params, out: Path | None = None, texts: TextResults | None = None) -> Path:
    """Write all tables of the run in the current folder as one Markdown file (`report.markdown.write`)."""
    return markdown.write(params, _settings(params), _tables(params, texts or TextResults(params)), out)


def first_tables(params: Params) -> dict[str, list[dict[str, Any]]] | None:
    """Returns the first table of each study of a run that audits no texts, by its heading; None where texts are."""
    if params.cells:
        return None
    studies = [anonymity_tables.sections(Results(params)), training_tables.sections(Results(params))]
    firsts = (next((section for section in sections if len(section[2])), None) for sections in studies)
    return {section[0]: section[2].to_dicts() for section in firsts if section is not None}


def _tables(params: Params, texts: TextResults) -> Iterator[markdown.Section]:
    yield from text_tables.sections(texts)
    yield from anonymity_tables.sections(Results(params, texts.held))
    yield from training_tables.sections(Results(params, texts.held))


def _settings(params: Params) -> str:
    if params.cells:
        return text_tables.settings(params)
    audit = params.audit
    return f"Data sets: {', '.join(params.datasets)}. alpha = {audit.alpha:g}, seed {audit.seed}, round {audit.round}."
