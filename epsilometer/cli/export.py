"""An audit elsewhere, and beside another: `epsilometer export`, `results` and `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import Json
from epsilometer.cli.output import show

Exact = Annotated[bool, typer.Option("--exact", help="The exact losses in place of the estimates.")]


def export(
    file: Annotated[Path, typer.Argument(help="Where to: .csv, .json, .md (Markdown) or .tex (LaTeX).")],
    run: Annotated[Path, typer.Option(help="The folder of the audit.")] = Path(),
    columns: Annotated[str | None, typer.Option(help="Only these: dataset,mechanism,loss,verdict.")] = None,
    exact: Exact = False,
) -> None:
    """Write the estimates of an audit, with trials, claims and verdicts, for a paper or a spreadsheet."""
    from epsilometer.report.export import chosen, read, read_exact, write

    table = read_exact(run) if exact else read(run)
    write(chosen(table, columns.split(",") if columns else []), file)
    print(file.resolve(), flush=True)


def results(
    out: Annotated[
        Path | None, typer.Option(help="Where to; by default docs/results/PROFILE.md of the project.")
    ] = None,
) -> None:
    """Write all tables of the audit in this folder as one Markdown file, with date, commit and hardware."""
    from epsilometer.project.params import read
    from epsilometer.report.markdown import write
    from epsilometer.report.results import Results

    print(write(Results(read()), out).resolve(), flush=True)


def diff(
    one: Annotated[Path, typer.Argument(help="The folder of an audit: . or runs/NAME.")],
    other: Annotated[Path, typer.Argument(help="The folder of another.")],
    out: Annotated[Path | None, typer.Option(help="Write all columns: .csv, .json, .md or .tex.")] = None,
    exact: Exact = False,
    as_json: Json = False,
) -> None:
    """Two audits side by side: every estimate that either has.

    `change` is the second plug-in value less the first; `apart` says whether their intervals have no point in common.
    """
    from epsilometer.report.export import EXACT_ROW, ROW, compare, compare_exact, read, read_exact, write

    if exact:
        both = compare_exact(read_exact(one), read_exact(other))
        figures = [f"{name}_{number}" for name in ("average", "worst", "relative_epsilon") for number in (1, 2)]
        shown = [*EXACT_ROW, *figures, "change", "apart", "verdict_1", "verdict_2"]
    else:
        both = compare(read(one), read(other))
        shown = [*ROW, "loss_1", "upper_1", "loss_2", "upper_2", "change", "apart", "verdict_1", "verdict_2"]
    if out is not None:
        write(both, out)
        print(out.resolve(), flush=True)
    else:
        show(both.to_dicts() if as_json else both.select(shown).to_dicts(), as_json)
