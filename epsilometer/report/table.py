"""A table of a section, for the page of a run and as data for results/.

One line defines its columns, each with a heading and a format:

    "mechanism: {mechanism} | epsilon: {epsilon:budget} | right: {right:,} of {guesses:,}"

A format is from Python or `FORMATS`; a cell with a missing value is a dash.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
from markupsafe import Markup, escape

from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.core.rounding import written
from epsilometer.report import archive, wording
from epsilometer.report.archive import Grid

FORMATS: Mapping[str, Callable[[Any], str]] = {
    "beyond": wording.unbounded,
    "bounded": wording.bounded,
    "budget": wording.budget,
    "low_share": wording.share_proved,
    "number": wording.as_number,
    "p": wording.p_value,
    "proved": wording.proved,
    "rough": wording.rough,
    "share": wording.share,
}
NONE = "–"
NAMED = "data set: {dataset} | mechanism: {mechanism} | epsilon: {epsilon:budget}"
_NUMBER = re.compile(r"[≤≥<~+−-]? ?[\d∞–]|above \d|exact: |at (least|most) \d|not testable$|ceiling$|every time$|$")
_WIDE = 28  # a cell with more letters than this counts as words, and may wrap
_ASIDE = 40  # maximum number of letters of a number with its remark
_LESS = re.compile(r" (\(|± |to |of )")  # marks the beginning of a number's remark


@dataclass(frozen=True)
class Table:
    """A heading, a caption of one or two sentences, and rows.

    rows: the text of each cell by the heading of its column (`records`), or `Markup`; missing cells are empty. A column
    `mechanism` shows the mechanism's style, and a row with a violated claim is highlighted.
    folded: True if only the heading is shown until a reader opens it.
    page_only: True if the table is not in results/; off_page: True if it is only in results/.
    texts: True if it contains texts of public data sets, which are wide and are not written to results/.
    stacked: True to place a row's other cells below its first cell on a phone, so that all are visible.
    picture: the name of a figure of the section, whose file is in the table's folder.
    anchors: an id for each row.
    """

    heading: str
    caption: str
    rows: Sequence[Mapping[str, Any]]
    folded: bool = False
    page_only: bool = False
    off_page: bool = False
    texts: bool = False
    stacked: bool = False
    picture: str | None = None
    anchors: Sequence[str] = ()
    kind: ClassVar[str] = "table"

    @property
    def columns(self) -> list[str]:
        """The columns of all rows, in the order of their first appearance."""
        return [*dict.fromkeys(name for row in self.rows for name in row)]

    @property
    def in_results(self) -> bool:
        """True if the table is in results/, which has no tables without rows and no texts of a data set."""
        return bool(self.rows) and not (self.page_only or self.texts)

    def grid(self) -> Grid:
        """Return the table as data."""
        frame = pl.DataFrame(self.rows, infer_schema_length=None)
        return archive.grid(self.heading, frame, self.caption, f"{self.picture}.svg" if self.picture else "")

    def html(self) -> dict[str, Any]:
        """Return the context of `section.html.j2`: heads with their classes, and rows with their classes and cells."""
        cells = {name: [_text(name, row.get(name)) for row in self.rows] for name in self.columns}
        heads = [(_head(name), _class(shown)) for name, shown in cells.items()]
        styles = [style for _, style in heads]
        rows = []
        for number, row in enumerate(zip(*cells.values(), strict=True)):
            shown = [
                (name, text, _cell(text, style), style) for name, text, style in zip(cells, row, styles, strict=True)
            ]
            anchor = self.anchors[number] if self.anchors else ""
            rows.append({"violated": VIOLATED in row, "cells": shown, "anchor": anchor})
        return {"heads": heads, "rows": rows}


def records(rows: pl.DataFrame | Iterable[Mapping[str, Any]], columns: str) -> list[dict[str, str]]:
    """Return a record per row, with the headings and formats of these columns."""
    every = rows.iter_rows(named=True) if isinstance(rows, pl.DataFrame) else rows
    return [record(row, columns) for row in every]


def record(row: Mapping[str, Any], columns: str) -> dict[str, str]:
    """Return the text of each of these columns in a row, by heading."""
    cells = {}
    for column in columns.split(" | "):
        heading, _, before = column[: column.index("{")].rpartition(": ")
        form = before + column[column.index("{") :]
        missing = any(row[name] is None for _, name, _, _ in string.Formatter().parse(form) if name)
        cells[heading] = NONE if missing else _FORMATTER.vformat(form, (), row)
    return cells


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return FORMATS[format_spec](value) if format_spec in FORMATS else format(value, format_spec)


_FORMATTER = _Formatter()


def _text(name: str, value: Any) -> str:
    if isinstance(value, float):
        return written(name, value)
    return NONE if value is None else value if isinstance(value, str) else f"{value:,}"


def _head(name: str) -> str:
    """Return a column's name on the page: `Nominal ε`, `δ at 4 nats`."""
    name = name.replace("_", " ").replace("delta", "δ").replace(" epsilon", " ε")
    return "Nominal ε" if name == "epsilon" else name if name.startswith("δ") else name[:1].upper() + name[1:]


def _class(shown: Sequence[str]) -> str:
    """Return the style of a column: `number` for numbers, `words` for words that wrap, else empty."""
    most = max(map(len, shown), default=0)
    if all(map(_NUMBER.match, shown)) and most <= _ASIDE:
        return "number"
    return "words" if most > _WIDE else ""


def _cell(text: str, style: str) -> Markup:
    """Return the cell as HTML, with a number's remark muted. A violated claim has a mark in addition to its colour."""
    if isinstance(text, Markup):
        return text
    if text == VIOLATED:
        return Markup("✕ {}").format(text)
    aside = _LESS.search(text) if style == "number" else None
    if aside is None:
        return escape(text)
    return Markup('{}<span class="muted">{}</span>').format(text[: aside.start()], text[aside.start() :])


def anchor(dataset: str, mechanism: str, epsilon: float | None) -> str:
    """Return the id of the row of a cell's evidence, without characters that an id must not contain."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"evidence-{dataset}-{mechanism}-{wording.budget(epsilon)}")


def by_budget(table: pl.DataFrame, cell: Callable[[pl.DataFrame], str]) -> Iterator[Table]:
    """Yield a table per data set: a row per mechanism, in the order of the rows, and a column per budget.

    cell: returns the text of a table cell, or its markup, from the rows of a budget.
    """
    for (dataset,), rows in table.group_by("dataset", maintain_order=True):
        shown = []
        for (mechanism,), cells in rows.group_by("mechanism", maintain_order=True):
            row = {"mechanism": str(mechanism)}
            for number, (_, each) in enumerate(cells.group_by("epsilon", maintain_order=True), start=1):
                row[f"budget {number}"] = cell(each)
            shown.append(row)
        yield Table(str(dataset), "", shown, page_only=True, stacked=True)
