"""The body of the report: the list of its sections, written as one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epsilometer import __version__
from epsilometer.core import tables
from epsilometer.report import figures
from epsilometer.report.environment import render
from epsilometer.report.results import Results
from epsilometer.report.section import Section
from epsilometer.report.sections import (
    ablations,
    anonymity,
    claims,
    curves,
    exact_loss,
    examples,
    known_loss,
    look,
    numbers,
    possible,
    reading,
    settings,
    similarity,
    strongest,
    summary,
    sweeps,
    training,
    worst_case,
    worth,
)

# In the page's order. A section whose tables are empty is None, and absent.
SECTIONS = (
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
    anonymity.section,
    training.section,
    examples.section,
)
CLOSING = (reading.section, settings.section)  # after the history of audits, which is put in last (`page`)


def build(results: Results, path: Path, folder: Path) -> None:
    """Write the body, and each of its figures as SVG and PNG into a folder.

    Raises UserError for a table that lacks a column, for an audit without estimates, and for texts of a data set that
    is not marked public; nothing is written then.
    """
    top = summary.section(results)
    sections = [section for make in SECTIONS if (section := make(results))]
    closing = [make(results) for make in CLOSING]
    estimates = results.estimates
    shared = {
        "styles": figures.styles(
            [*estimates["mechanism"], *(cell.mechanism for cell in results.params.anonymity.values())]
        ),
        "controls": estimates.filter("control")["mechanism"].unique().sort().to_list(),
    }
    html = render(
        "body.html.j2",
        {
            "title": results.params.title,
            "version": __version__,
            "summary": _rendered([top], shared)[0],
            "sections": _rendered(sections, shared),
            "closing": _rendered(closing, shared),
            "script": figures.script(),
            "width": figures.WIDTH,
        },
    )
    for section in sections:
        for figure in section.figures:
            figure.save(folder)
    tables.write_text(html, path)


def _rendered(sections: Sequence[Section], shared: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "link": one.link, "html": render(one.template, {**shared, **one.context})} for one in sections
    ]
