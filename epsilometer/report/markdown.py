"""The tables of a finished run as one Markdown file, for a repository that keeps its results. Losses are in nats.

They are those of the page's sections, in the same order, except those only for the page (`table.Table`).
"""

from __future__ import annotations

from collections.abc import Iterable
from html import unescape
from pathlib import Path

from epsilometer.core import tables
from epsilometer.project import times as project_times
from epsilometer.project.params import ProjectParams
from epsilometer.report import origin, page, times
from epsilometer.report.table import Table
from epsilometer.runtime.machine import hardware


def write(params: ProjectParams, settings: str, shown: Iterable[Table], out: Path | None = None) -> Path:
    """Write the tables of the run in the current folder, by default to docs/results/PROFILE.md of its project.

    settings: a sentence on the settings behind them. Returns the file. Raises UserError if no finished run is here.
    """
    profile, seconds = origin.profile(Path()), project_times.read()
    parts = [
        f"# {profile}: {params.title}",
        "Written by `epsilometer results tables` from the outputs of a run; do not edit. Losses are in nats; `a to b` "
        "is the lower bound and the upper end of an interval; `ceiling` means that every guess was right, as does "
        "`at least` where the exact loss is known.",
        f"Run of {unescape(page.header())}{hardware()}. {times.total(seconds)}",
        settings,
    ]
    parts += [table.markdown() for table in (*shown, times.table(seconds)) if table.in_markdown]
    path = Path(params.root) / "docs/results" / f"{profile}.md" if out is None else out
    tables.write_text("\n\n".join(parts) + "\n", path)
    return path
