"""Figures of results/ that pages and claims cite.

A reference has a table, a row and a column. For a cell with several values, the reference also names the value:

    full/losses-on-queries; tem, 5; strongest
    training/attacks-against-noise; reviews-bert-none, rmia; levels: values; 0.03

A row is named by its first cells, as many as distinguish it from all other rows. If the fourth part is `Holm, tem`, the
figure is a p-value, adjusted for all p-values of its column in rows that begin with `tem` (Holm 1979).

In a Markdown page, a figure is a link to its table. After `#`, a plus stands for a space. `filled` updates the figure:

    [2.54 to 3.45](../results/full/losses-on-queries.csv#tem,+5;+strongest)
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote_plus

from epsilometer.auditing.results.comparison import holm
from epsilometer.core.errors import UserError
from epsilometer.report import archive
from epsilometer.report.agreement import interval

FOLDERS = (archive.RESULTS, "claims")  # folders of a project: measured figures, and figures printed by papers
_FILE = rf'(?:\.\./)+(?:{"|".join(FOLDERS)})/[^\s"#)]+\.(?:csv|parquet)'
FIGURE = re.compile(rf"\[([^\]]*)\]\(({_FILE})#((?:[^()\s]|\([^()\s]*\))+)\)")
REFERENCE = re.compile(r"\{([\w.-]+/[^{};]+;[^{}]*)\}")  # a reference inside the text of a claim
_TABLES = dict[Path, tuple[list[str], list[list[str]]]]


class Figures:
    """The figures of a project, by reference. Each table is read once. root: the project's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tables: _TABLES = {}

    def value(self, reference: str) -> str:
        """Return the text of a figure.

        Raises UserError, naming the reference, for a missing table, column or value, or if not exactly one row
        matches.
        """
        name, row, column, part = (piece.strip() for piece in f"{reference};;;".split(";")[:4])
        columns, rows = self._table(name, reference)
        if column not in columns:
            raise _wrong(reference, f"{name} has no column {column!r}; it has {', '.join(columns)}")
        matching = [cells for cells in rows if _begins(cells, row)]
        if len(matching) != 1:
            raise _wrong(reference, f"{len(matching)} rows begin with {row!r}, and exactly one must")
        at = columns.index(column)
        cell = matching[0][at]
        if part.startswith("Holm, "):
            return _by_holm(cell, [cells[at] for cells in rows if _begins(cells, part.removeprefix("Holm, "))])
        if not part:
            return cell
        value = re.search(rf"(?:^|, ){re.escape(part)}: ([^,]+)", cell)
        if value is None:
            raise _wrong(reference, f"the cell has no value at {part}")
        return value[1]

    def _table(self, name: str, reference: str) -> tuple[list[str], list[list[str]]]:
        path = next(filter(None, (archive.file(self.root / folder, name) for folder in FOLDERS)), None)
        if path is None:
            raise _wrong(reference, f"{' or '.join(FOLDERS)} has no table {name}")
        if path not in self._tables:
            self._tables[path] = archive.cells(path)
        return self._tables[path]


def filled(text: str, figures: Figures) -> str:
    """Return the text of a page with its figures updated."""
    return FIGURE.sub(lambda link: f"[{figures.value(reference(link))}]({link[2]}#{link[3]})", text)


def reference(link: re.Match[str]) -> str:
    """Return the reference of a figure's link."""
    name = re.sub(r"^(?:\.\./)+[^/]+/|\.(?:csv|parquet)$", "", link[2])
    return f"{name}; {unquote_plus(link[3])}"


def _begins(cells: list[str], row: str) -> bool:
    return f"{', '.join(cells)}, ".startswith(f"{row}, ")


def _by_holm(cell: str, family: list[str]) -> str:
    """Return the p-value in a cell, adjusted for the p-values in a family; cells without a number are skipped."""
    p_values = [interval(other)[0] for other in family if re.search(r"\d", other)]
    adjusted = dict(zip(p_values, holm(p_values), strict=True))
    return f"{adjusted[interval(cell)[0]]:.2g}"


def _wrong(reference: str, what: str) -> UserError:
    return UserError(
        f"The figure {reference!r} cannot be filled: {what}. Correct the reference, or the table.", "EPS-R015"
    )
