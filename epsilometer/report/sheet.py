"""A self-contained HTML page of headings, sentences and tables, without scripts, which can be printed.

It does not use the report's templates, because these need packages that a gate must not depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
:root { color-scheme: light dark; --line: #c8c8c8; --muted: #5a5a5a; --bad: #a4161a; --good: #1b6b3a; --open: #7a5500; }
@media (prefers-color-scheme: dark) {
  :root { --line: #4a4a4a; --muted: #b0b0b0; --bad: #ff8a80; --good: #7ddc9e; --open: #ffcc66; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: .2rem 0 .6rem; }
h2 { font-size: 1.1rem; margin: 1.1rem 0 .3rem; }
p { margin: .3rem 0 .5rem; }
.lead { font-size: 1.1rem; } .note { color: var(--muted); font-size: .9rem; }
.form { border-collapse: collapse; width: 100%; } .form th { font-weight: normal; text-align: left; width: 34%; }
.form td, .form th { border-bottom: 1px solid var(--line); height: 1.9rem; padding: .2rem 0; vertical-align: bottom; }
.small { font-size: .8rem; } .small td { overflow-wrap: anywhere; }
hr { border: 0; border-top: 1px solid var(--line); break-after: page; margin: 1.6rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .3rem 0 .6rem; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
td { overflow-wrap: break-word; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); font-weight: 600; }
.open { color: var(--open); font-weight: 600; }
@page { size: A4; margin: 12mm; }
@media print {
  :root { color-scheme: light; --line: #c8c8c8; --muted: #444; --bad: #a4161a; --good: #1b6b3a; --open: #7a5500; }
  hr { visibility: hidden; margin: 0; }
  body { font-size: 8.5pt; line-height: 1.3; max-width: none; padding: 0; } tr { break-inside: avoid; }
  h1 { font-size: 14pt; } h2 { break-after: avoid; font-size: 10pt; margin: .6rem 0 .2rem; }
}
"""


@dataclass(frozen=True)
class Heading:
    """The heading of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. kind: lead, note, good, bad or open; plain if empty."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Grid:
    """A table.

    kinds: the kind of each row's first cell, as for a paragraph; widths: relative widths of columns on paper; small:
    True for small letters, as for evidence and digests.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    kinds: Sequence[str] = ()
    widths: Sequence[int] = ()
    small: bool = False


@dataclass(frozen=True)
class Form:
    """Labels with their entries. An empty entry is a line to fill in by hand."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Break:
    """The end of a page on paper."""


Block = Heading | Paragraph | Grid | Form | Break


def page(title: str, blocks: Iterable[Block]) -> str:
    """Return the page, as HTML."""
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def written(value: object) -> str:
    """Return the text of a cell."""
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h2>{escape(block.text)}</h2>"
    if isinstance(block, Paragraph):
        return f"<p{_class(block.kind)}>{escape(block.text)}</p>"
    if isinstance(block, Break):
        return "<hr>"
    if isinstance(block, Form):
        entries = "".join(
            f'<tr><th scope="row">{escape(label)}</th><td>{escape(entry)}</td></tr>\n' for label, entry in block.rows
        )
        return f'<table class="form"><tbody>\n{entries}</tbody></table>'
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in block.heads)
    lines = []
    for number, row in enumerate(block.rows):
        first = block.kinds[number] if number < len(block.kinds) else ""
        lines.append("<tr>" + "".join(_cell(cell, "" if i else first) for i, cell in enumerate(row)) + "</tr>")
    body = "\n".join(lines)
    small = ' class="small"' if block.small else ""
    return (
        f'<div class="scroll"><table{small}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
    )


def _cell(value: object, kind: str) -> str:
    kind = kind or ("number" if isinstance(value, int | float) else "")
    return f"<td{_class(kind)}>{escape(written(value))}</td>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
