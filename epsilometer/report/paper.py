"""A page as PDF, by fpdf2, which needs no system package.

The PDF uses the standard fonts of PDF readers, which have only Latin letters. Other characters, such as in a data
set's name, are written as code points; the HTML page shows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from epsilometer.report.sheet import Block, Break, Form, Grid, Heading, Paragraph, written

if TYPE_CHECKING:
    from fpdf import FPDF

_FONT, _MARGIN, _SIZE = "Helvetica", 14, 9.5
_LINE = 8.5  # height of a line to write on, in millimetres
_SMALL = 7.2  # font size of small tables (evidence and digests), in points
_NO_DATE = datetime(1980, 1, 1, tzinfo=UTC)
_COLOURS = {"bad": (164, 22, 26), "good": (27, 107, 58), "open": (122, 85, 0), "note": (80, 80, 80)}
_SIGNS = str.maketrans({"≥": ">=", "≤": "<=", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "…": "...", "−": "-"})


def pdf(title: str, blocks: Iterable[Block]) -> bytes:
    """Return the page as an A4 PDF. The date in the file is fixed, so that equal pages have equal bytes."""
    from fpdf import FPDF

    paper = FPDF(format="A4")
    paper.set_creation_date(_NO_DATE)
    paper.set_title(_latin(title))
    paper.set_margin(_MARGIN)
    paper.set_auto_page_break(True, _MARGIN)
    paper.add_page()
    _write(paper, title, size=16, style="B", gap=2)
    for block in blocks:
        if isinstance(block, Heading):
            paper.ln(1.5)
            _write(paper, block.text, size=11, style="B", gap=0.4)
        elif isinstance(block, Paragraph):
            bold = "B" if block.kind in ("bad", "good", "open") else ""
            _write(paper, block.text, size=_SIZE + (2 if block.kind == "lead" else 0), style=bold, kind=block.kind)
        elif isinstance(block, Break):
            paper.add_page()
        elif isinstance(block, Form):
            _form(paper, block)
        else:
            _grid(paper, block)
    return bytes(paper.output())


def _write(paper: FPDF, text: str, *, size: float, style: str = "", kind: str = "", gap: float = 0.8) -> None:
    paper.set_font(_FONT, style, size)
    paper.set_text_color(*_COLOURS.get(kind, (0, 0, 0)))
    paper.multi_cell(0, size * 0.45, _latin(text), new_x="LMARGIN", new_y="NEXT", align="L")
    paper.ln(gap)


def _form(paper: FPDF, form: Form) -> None:
    """Write labels in a column, each with its entry on a line to write on."""
    paper.set_font(_FONT, "", _SIZE)
    paper.set_text_color(0, 0, 0)
    paper.set_draw_color(120, 120, 120)
    for label, entry in form.rows:
        paper.cell(62, _LINE, _latin(label), align="L")
        paper.cell(0, _LINE, _latin(entry), border="B", new_x="LMARGIN", new_y="NEXT")


def _grid(paper: FPDF, grid: Grid) -> None:
    from fpdf.enums import TableBordersLayout
    from fpdf.fonts import FontFace

    size = _SMALL if grid.small else _SIZE - 0.5
    paper.set_font(_FONT, "", size)
    paper.set_text_color(0, 0, 0)
    paper.set_draw_color(200, 200, 200)
    with paper.table(
        borders_layout=TableBordersLayout.HORIZONTAL_LINES,
        col_widths=tuple(grid.widths) or None,
        headings_style=FontFace(emphasis="BOLD"),
        line_height=size * 0.45,
        padding=0.5,
        text_align="LEFT",
    ) as table:
        table.row([_latin(head) for head in grid.heads])
        for number, cells in enumerate(grid.rows):
            kind = grid.kinds[number] if number < len(grid.kinds) else ""
            face = FontFace(emphasis="BOLD", color=_COLOURS[kind]) if kind in _COLOURS else None
            row = table.row()
            for place, cell in enumerate(cells):
                row.cell(_latin(written(cell)), style=None if place else face)
    paper.ln(1)


def _latin(text: str) -> str:
    signs = text.translate(_SIGNS)
    return "".join(sign if ord(sign) < 256 else f"U+{ord(sign):04X}" for sign in signs)
