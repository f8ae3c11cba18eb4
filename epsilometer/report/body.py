"""The body of the report, written as one HTML file that opens offline: a first screen, and sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from epsilometer.core import tables
from epsilometer.core.version import VERSION
from epsilometer.report import figures
from epsilometer.report.environment import render, show
from epsilometer.report.section import NEXT, Section

ROOM = 120  # words above the first section
_HEADER = 15  # words that say where the page comes from, which are put in last (`origin.header`)


@dataclass(frozen=True)
class Body:
    """What the page shows, in its order. mechanisms: that are drawn or named; controls: those whose loss is known."""

    title: str
    sections: Sequence[Section]
    closing: Sequence[Section]  # after the history of audits, which is put in last (`page`)
    mechanisms: Iterable[str]
    controls: Sequence[str]


def build(body: Body, path: Path, folder: Path) -> None:
    """Write the body, and each of its figures as SVG and PNG into a folder, which is created even for no figure."""
    folder.mkdir(parents=True, exist_ok=True)
    styles = figures.styles([*body.mechanisms])
    shown = {
        name: [{"id": part.id, "link": part.link, "html": show(part, styles, body.controls)} for part in sections]
        for name, sections in (("sections", body.sections), ("closing", body.closing))
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


def first_screen(body: Body) -> list[tuple[str, str]]:
    """The topics and sentences that the sections contribute, in their order.

    Where there is no room for all, those at the end go first, and what to do next stays longest.
    """
    sections = [*body.sections, *body.closing]
    taken = _HEADER + len(" ".join([body.title, *(section.link for section in sections)]).split())
    chosen = [each for section in sections for each in section.first_screen]
    while chosen and taken + sum(len(f"{topic} {sentence}".split()) for topic, sentence in chosen) > ROOM:
        others = [number for number, (topic, _) in enumerate(chosen) if topic != NEXT]
        del chosen[others[-1] if others else -1]
    return chosen
