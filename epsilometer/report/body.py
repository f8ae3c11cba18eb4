"""The body of the report (a first screen and sections), as one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from epsilometer.core import tables
from epsilometer.core.version import VERSION
from epsilometer.report import figures
from epsilometer.report.environment import render, show
from epsilometer.report.section import Section

ROOM = 260  # maximum number of words above the first section
_HEADER = 15  # number of words about the page's origin, which `page` inserts later

Topics = list[tuple[str, list[str]]]
"""Topics of the first screen, each with its sentences."""


@dataclass(frozen=True)
class Body:
    """The contents of the page, in order. mechanisms: all mechanisms on it; controls: the controls among these."""

    title: str
    sections: Sequence[Section]
    closing: Sequence[Section]  # sections below the history of audits, which `page` inserts later
    mechanisms: Iterable[str]
    controls: Sequence[str]
    last: Sequence[Section] = ()  # sections below the origin of the page, which `page` inserts later


def build(body: Body, path: Path, folder: Path) -> None:
    """Write the body to a path, and its figures as SVG and PNG to a folder, which is created even without figures."""
    folder.mkdir(parents=True, exist_ok=True)
    styles = figures.styles([*body.mechanisms])
    shown = {
        name: [{"id": part.id, "link": part.link, "html": show(part, styles, body.controls)} for part in sections]
        for name, sections in (("sections", body.sections), ("closing", body.closing), ("last", body.last))
    }
    html = render(
        Path(__file__).with_suffix(".html.j2"),
        {
            "title": body.title,
            "version": VERSION,
            "first_screen": first_screen(body),
            "alarm": any(section.alarm for section in body.sections),
            "script": figures.script(),
            "width": figures.WIDTH,
            **shown,
        },
    )
    for section in body.sections:
        for figure in section.figures:
            figure.save(folder)
    tables.write_text(html, path)


def first_screen(body: Body) -> Topics:
    """Return the topics and sentences that the sections contribute, in their order.

    The first section with topics contributes all its topics, so that every data set has its answer. Later sections
    contribute the topics that fit.
    """
    sections = [*body.sections, *body.closing, *body.last]
    taken = _HEADER + len(" ".join([body.title, *(section.link for section in sections)]).split())
    chosen: Topics = []
    for number, section in enumerate(section for section in sections if section.first_screen):
        for topic, pairs in groupby(section.first_screen, key=lambda each: each[0]):
            sentences = [sentence for _, sentence in pairs]
            words = len(" ".join([topic, *sentences]).split())
            if number == 0 or taken + words <= ROOM:
                chosen.append((topic, sentences))
                taken += words
    return chosen
