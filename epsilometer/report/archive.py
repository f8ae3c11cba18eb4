"""The tables of a finished run as data, in a folder under `results/`.

`run.json` states the title, date, commit, hardware and minutes of the run, and lists its tables in order: heading,
caption and file. A table is a CSV file, or a Parquet file if the CSV had 100 kB or more. Cells hold the text that the
report shows, such as a loss with its interval. `page` returns all tables of a run as one Markdown page.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.results.losses import presented
from epsilometer.core import tables
from epsilometer.core.errors import UserError

RESULTS = "results"  # the folder in a project
RUN = "run.json"
LARGE = 100_000  # bytes of CSV; a table of at least this size is written as Parquet
_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Grid:
    """A table of text. Each row has a cell for each column.

    picture: file name of a figure above the table. note: paragraphs below the table.
    """

    heading: str
    columns: list[str]
    rows: list[list[str]]
    caption: str = ""
    picture: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """The file name without suffix, such as `losses-on-queries`, from the heading."""
        return re.sub(r"[^\w.]+", "-", self.heading.lower()).strip("-.")


@dataclass(frozen=True)
class Run:
    """A run's tables and their origin: the content of a folder of results.

    command: the command that wrote the folder; minutes: the processor time, None if unknown; about: paragraphs above
    the tables.
    """

    title: str
    command: str = ""
    profile: str = ""
    date: str = ""
    commit: str = ""
    hardware: str = ""
    stages: int | None = None
    minutes: int | None = None
    about: list[str] = field(default_factory=list)
    tables: list[Grid] = field(default_factory=list)


def grid(heading: str, frame: pl.DataFrame, caption: str = "", picture: str = "", note: str = "") -> Grid:
    """Return a data frame as a table of text, with numbers as `core.rounding.written` writes them."""
    shown = presented(frame, frame.columns)
    rows = [[" ".join(cell.split("\n")).strip() for cell in row] for row in shown.iter_rows()]
    return Grid(heading, shown.columns, rows, caption=caption, picture=picture, note=note)


def write(run: Run, folder: Path, pictures: Mapping[str, str] | None = None) -> Path:
    """Write a run to a folder, delete other tables there, and return the folder.

    pictures: SVG by file name. Raises UserError if two tables have the same name.
    """
    names = [grid.name for grid in run.tables]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(
            f"Two tables of {run.title!r} would be the file {twice[0]!r}. Give them different headings.", "EPS-R024"
        )
    files = dict[str, str]()
    for grid in run.tables:
        files[grid.name] = _write(grid, folder)
    for name, svg in (pictures or {}).items():
        tables.write_text(svg, folder / name)
    facts = {**asdict(run), "tables": [_entry(grid, files[grid.name]) for grid in run.tables]}
    tables.write_json(facts, folder / RUN)
    for path in folder.iterdir():
        if path.suffix in _SUFFIXES and path.name not in files.values():
            path.unlink()
    return folder


def _entry(grid: Grid, file: str) -> dict[str, str]:
    entry = {"file": file, **{name: getattr(grid, name) for name in ("heading", "caption", "picture", "note")}}
    return {name: value for name, value in entry.items() if value}


def _write(grid: Grid, folder: Path) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([grid.columns, *grid.rows])
    if len(text.getvalue().encode()) < LARGE:
        tables.write_text(text.getvalue(), folder / f"{grid.name}.csv")
        return f"{grid.name}.csv"
    frame = pl.DataFrame(grid.rows, schema=dict.fromkeys(grid.columns, pl.String), orient="row")
    tables.write(frame, folder / f"{grid.name}.parquet", dict(frame.schema))
    return f"{grid.name}.parquet"


def read(folder: Path) -> Run:
    """Return the run in a folder. Raises UserError if run.json is missing or is not JSON."""
    path = folder / RUN
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist. `epsilometer results tables` writes it from a finished audit.", "EPS-R025"
        ) from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path} is not JSON ({error}). Restore it from git, or write it again (`epsilometer results tables`).",
            "EPS-R026",
        ) from None
    grids = []
    for entry in facts.pop("tables"):
        columns, rows = cells(folder / entry.pop("file"))
        grids.append(Grid(columns=columns, rows=rows, **entry))
    return Run(tables=grids, **facts)


def cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a table's file."""
    if path.suffix == ".parquet":
        frame = tables.read(path, {})
        return frame.columns, [list(row) for row in frame.iter_rows()]
    with path.open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    return columns, rows


def file(folder: Path, name: str) -> Path | None:
    """Return the file of a table; None if it does not exist. name: `PROFILE/NAME`, with or without a suffix."""
    place = folder / re.sub(r"\.(csv|parquet)$", "", name)
    return next((path for suffix in _SUFFIXES if (path := Path(f"{place}{suffix}")).is_file()), None)


def page(run: Run) -> str:
    """Return a run as a Markdown page."""
    facts = [run.date, run.profile and f"profile {run.profile}", run.commit and f"commit {run.commit}", run.hardware]
    took = "" if run.minutes is None else f" {run.stages} stages took {run.minutes:,} minutes of processor time."
    losses = (
        "Losses are in nats; `a to b` is the interval from the lower to the upper bound. `ceiling`, or `at least` "
        "where the exact loss is known, means that every guess was right."
    )
    parts = [
        f"# {run.title}",
        f"Written by `{run.command}`. {losses}",
        " · ".join(fact for fact in facts if fact) + "." + took,
        *run.about,
    ]
    for grid in run.tables:
        image = grid.picture and f"![{grid.heading}]({grid.picture})"
        parts += [f"## {grid.heading}", grid.caption, image, markdown(grid.columns, grid.rows), grid.note]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(columns)
    lines = [
        [" ".join(cell.replace("|", "\\|").split("\n")) for cell in line] for line in (head, ["---"] * len(head), *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
