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
_HEADER = 15  # words on the origin of the page, which are inserted last (`origin.header`)


@dataclass(frozen=True)
class Body:
    """The contents of the page, in order. mechanisms: drawn or named on it; controls: those with a known loss."""

    title: str
    sections: Sequence[Section]
    closing: Sequence[Section]  # follows the history of audits, which is inserted last (`page`)
    mechanisms: Iterable[str]
    controls: Sequence[str]


def build(body: Body, path: Path, folder: Path) -> None:
    """Write the body, and each of its figures as SVG and PNG into a folder, which is created even without figures."""
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

    If there is not enough room, the last ones are left out first, and the next steps stay longest.
    """
    sections = [*body.sections, *body.closing]
    taken = _HEADER + len(" ".join([body.title, *(section.link for section in sections)]).split())
    chosen = [each for section in sections for each in section.first_screen]
    while chosen and taken + sum(len(f"{topic} {sentence}".split()) for topic, sentence in chosen) > ROOM:
        others = [number for number, (topic, _) in enumerate(chosen) if topic != NEXT]
        del chosen[others[-1] if others else -1]
    return chosen
