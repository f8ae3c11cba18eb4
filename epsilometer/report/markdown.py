"""The tables of a finished run as one Markdown file, for a repository that keeps its results. Losses are in nats.

A section is a heading, a sentence on how to read its table, and the table; one without rows is left out. No text of a
data set is shown. Each study lists its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import psutil

from epsilometer.core import tables
from epsilometer.project.params import ProjectParams
from epsilometer.report import origin, page
from epsilometer.report.export import markup
from epsilometer.report.wording import bounded, proved
from epsilometer.runtime.machine import processor

CELL = ["mechanism", "epsilon"]

Section = tuple[str, str, pl.DataFrame]


def write(params: ProjectParams, settings: str, sections: Iterable[Section], out: Path | None = None) -> Path:
    """Write the tables of the run in the current folder, by default to docs/results/PROFILE.md of its project.

    settings: a sentence on what they were made with. Returns the file. Raises UserError where no run is finished here.
    """
    profile = origin.profile(Path())
    parts = [
        f"# {profile}: {params.title}",
        "Written by `epsilometer results` from the outputs of a run; do not edit. Losses are in nats; `a to b` is the "
        "lower bound and the upper end of an interval; `ceiling` means that every guess was right, as does `at least` "
        "where the exact loss is known.",
        f"Run of {unescape(page.header())}{hardware()}.",
        settings,
    ]
    for heading, note, table in sections:
        if len(table):
            parts += [f"## {heading}", *([note] if note else []), markup(table).rstrip("\n")]
    path = Path(params.root) / "docs/results" / f"{profile}.md" if out is None else out
    tables.write_text("\n\n".join(parts) + "\n", path)
    return path


def hardware() -> str:
    """Returns the processor, its cores and the memory of this machine."""
    return f"{processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB of memory"


def as_table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The columns of all rows; what a row lacks is empty."""
    return pl.DataFrame(rows, infer_schema_length=None)


def loss_between(row: Mapping[str, Any] | None, end: str = "ceiling") -> str:
    """`0.71 to 0.82`; `end`, which takes the loss, where every guess was right, for then there is no upper end."""
    if row is None:
        return ""
    return (
        f"{proved(row['loss'])} to {bounded(row['upper'])}"
        if math.isfinite(row["upper"])
        else end.format(proved(row["loss"]))
    )


def as_rank(value: int | None) -> str:
    """Returns a rank; a dash for none."""
    return "–" if value is None else str(value)


def as_number(value: float | None) -> str:
    """Returns four digits; a dash for no value."""
    if value is None:
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else "∞"
