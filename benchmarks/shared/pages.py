"""Tables that a benchmark prints in Markdown, written as data to `results/NAME`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from epsilometer.report import archive, origin
from epsilometer.report.archive import Grid, Run
from epsilometer.runtime.machine import hardware

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / archive.RESULTS
_WRITER = re.compile(r"^Written by `([^`]+)`[^;]*; do not edit\.\s*")
_RUN = re.compile(
    r"(?:Run of )?(?P<date>\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?)(?: · profile (?P<profile>\S+))?(?: ·|,) "
    r"commit (?P<commit>[0-9a-f]+(?:, with uncommitted changes)?)(?: ·|,) (?P<hardware>[^.]+)\.\s*"
    r"(?:(?P<stages>\d+) stages ran here, in (?P<minutes>[\d,]+) minutes of processor time\.)?"
)
_FILLED = re.compile(r"Losses are in nats; `a to b`.*", re.DOTALL)  # said by every page


def head(title: str, command: str, about: str) -> list[str]:
    """Return lines: the title, the command that wrote the page, the date, the commit and the hardware.
    command: the part after `python -m benchmarks.`, with the required options. about: what was measured, in sentences.
    """
    return [
        f"# {title}",
        "",
        f"Written by `python -m benchmarks.{command}`; do not edit. What it shows is in its docstring.",
        "",
        f"{dated()} {about}",
    ]


def dated() -> str:
    """Return the date, the commit and the hardware."""
    return f"{datetime.now(UTC):%Y-%m-%d}, {origin.facts(ROOT)['brief']}, {hardware()}."


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ").strip() or "(empty)"


def table(heading: str, said: str, head: str, rows: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a heading, a sentence, which may be empty, and a table."""
    yield from ("", f"## {heading}", "", *([said, ""] if said else []), head, "|---" * (head.count("|") - 1) + "|")
    yield from rows


def write(lines: Iterable[str], folder: Path) -> None:
    """Write the lines of a page as data (`archive.write`)."""
    archive.write(parsed("\n".join(lines)), folder)


def parsed(text: str) -> Run:
    """Return the run on a page in Markdown: title, paragraphs, and under each heading a caption and a table.

    The heading of a table before the first heading is the title.
    """
    first, *sections = re.split(r"^## ", text.strip(), flags=re.MULTILINE)
    title, _, above = first.removeprefix("# ").partition("\n")
    grids = [_grid(section) for section in sections if "\n|" in section]  # one without a table is not finished
    if re.search(r"^\|", above, re.MULTILINE):
        paragraphs, body = re.split(r"\n\n(?=\|)", above, maxsplit=1)
        grids.insert(0, _grid(f"{title}\n\n{body}"))
        above = paragraphs
    facts, about = dict[str, Any](), []
    for paragraph in _blocks(above):
        if writer := _WRITER.match(paragraph):
            facts["command"] = writer[1]
            paragraph = _FILLED.sub("", paragraph[writer.end() :]).strip()
        elif "date" not in facts and (run := _RUN.match(paragraph)):
            facts |= {name: value for name, value in run.groupdict().items() if value}
            paragraph = paragraph[run.end() :].strip()
        about += [paragraph] if paragraph else []
    facts |= {name: int(facts[name].replace(",", "")) for name in ("stages", "minutes") if name in facts}
    return Run(title, tables=grids, about=about, **facts)


def _grid(section: str) -> Grid:
    heading, _, body = section.partition("\n")
    blocks = _blocks(body)
    (at,) = [number for number, block in enumerate(blocks) if block.startswith("|")]
    columns, _, *rows = (
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in blocks[at].splitlines()
    )
    above = [re.match(r"!\[.*\]\((.*)\)$", block) for block in blocks[:at]]
    picture = next((image[1] for image in above if image), "")
    caption = "\n\n".join(block for block, image in zip(blocks[:at], above, strict=False) if not image)
    return Grid(heading, columns, rows, caption=caption, picture=picture, note="\n\n".join(blocks[at + 1 :]))


def _blocks(text: str) -> list[str]:
    return [block for block in re.split(r"\n\n+", text.strip("\n")) if block]
