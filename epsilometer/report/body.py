"""The body of the report, written as one HTML file that opens offline: a first screen, sections, and a closing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilometer.core import tables
from epsilometer.core.version import VERSION
from epsilometer.report import figures
from epsilometer.report.environment import render
from epsilometer.report.section import Section


@dataclass(frozen=True)
class Body:
    """What the page shows, in its order. mechanisms: that are drawn or named; controls: those whose loss is known."""

    title: str
    first_screen: Sequence[Section]  # where there is none, the findings of the sections
    sections: Sequence[Section]
    closing: Sequence[Section]  # after the history of audits, which is put in last (`page`)
    mechanisms: Iterable[str]
    controls: Sequence[str]


def build(body: Body, path: Path, folder: Path) -> None:
    """Write the body, and each of its figures as SVG and PNG into a folder."""
    lifted = [] if body.first_screen else [section for section in body.sections if section.sentences]
    shared = {"styles": figures.styles([*body.mechanisms]), "controls": body.controls}
    html = render(
        Path(__file__).with_suffix(".html.j2"),
        {
            "title": body.title,
            "version": VERSION,
            "first_screen": _rendered(body.first_screen, shared),
            "findings": [(section.link, section.sentences) for section in lifted],
            "sections": _rendered(body.sections, shared, lifted),
            "closing": _rendered(body.closing, shared),
            "script": figures.script(),
            "width": figures.WIDTH,
        },
    )
    for section in body.sections:
        for figure in section.figures:
            figure.save(folder)
    tables.write_text(html, path)


def _rendered(
    sections: Sequence[Section], shared: Mapping[str, Any], lifted: Sequence[Section] = ()
) -> list[dict[str, Any]]:
    rendered = []
    for section in sections:
        context = {**shared, "sentences": () if section in lifted else section.sentences, **section.context}
        rendered.append({"id": section.id, "link": section.link, "html": render(section.template, context)})
    return rendered
