"""An audit elsewhere, and beside another: `epsilometer export`, `results` and `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import Columns, Json, writable
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError


def export(
    file: Annotated[
        Path | None,
        typer.Argument(help="File to write: .csv, .json, .md (Markdown) or .tex (LaTeX).", callback=writable),
    ] = None,
    run: Annotated[Path, typer.Option(help="Folder of the audit.")] = Path(),
    table: Annotated[str, typer.Option(help="Table to export: claims, exact, similarity, ...")] = "estimates",
    columns: Columns = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV; without FILE it is printed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Write LaTeX (booktabs).")] = False,
) -> None:
    """Write or print a table of an audit, for a paper or a spreadsheet; by default its estimates and verdicts.

    Of the estimates a few columns are written, of another table all. In Markdown and LaTeX bounds are rounded so that
    they stay true, and a loss that reached its ceiling is marked ≥.
    """
    from epsilometer.auditing.results.losses import chosen
    from epsilometer.report.export import ESTIMATED, SHORT, read_table, rendered, write

    formats = [suffix for suffix, flag in {".csv": csv, ".json": json, ".md": markdown, ".tex": latex}.items() if flag]
    if len(formats) > 1 or (file is None and not formats):
        raise UserError("give a FILE, or one of --csv, --json, --markdown and --latex", "EPS-U037")
    every = read_table(run, table)
    wanted = chosen(columns, every.columns, SHORT if table == ESTIMATED else every.columns)
    if file is None:
        tell(rendered(every, formats[0], wanted), end="")
    else:
        write(every, file, formats[0] if formats else None, wanted)
        tell(file.resolve())


def results(
    out: Annotated[
        Path | None,
        typer.Option(help="File to write (default: docs/results/PROFILE.md of the project).", callback=writable),
    ] = None,
) -> None:
    """Write all tables of the audit in this folder as one Markdown file, with date, commit and hardware.

    Then fill the figures that pages beside docs/results cite from it.
    """
    from epsilometer.pipeline.params import read
    from epsilometer.pipeline.reporting import write_tables
    from epsilometer.report import cited

    written = write_tables(read(), out)
    tell(written.resolve())
    for page in cited.fill(written.parents[1]) if out is None else ():
        tell(f"{page.resolve()}: figures filled")


def diff(
    first: Annotated[Path, typer.Argument(help="The folder of an audit: . or runs/NAME.")],
    second: Annotated[Path, typer.Argument(help="The folder of another.")],
    out: Annotated[
        Path | None, typer.Option(help="File for all columns: .csv, .json, .md or .tex.", callback=writable)
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Compare exact losses instead of estimates.")] = False,
    as_json: Json = False,
) -> None:
    """Two audits side by side: every estimate that either has, those first that moved by more than chance.

    `change` is the second plug-in value less the first; `p_value` tests that the hits of both are alike, corrected for
    the number of rows (1 % for all of them together); `moved` is worse where the second leaks more, and
    not testable where no hits of the second could have shown that.
    """
    from epsilometer.pipeline.measured import measured_in
    from epsilometer.report.export import read, read_exact, write
    from epsilometer.report.side_by_side import EXACT_ROW, ROW, compare, compare_exact, moved

    if exact:
        both = compare_exact(read_exact(first), read_exact(second))
        figures = [f"{name}_{number}" for name in ("average", "worst", "relative_epsilon") for number in (1, 2)]
        shown = [*EXACT_ROW, *figures, "change", "apart", "verdict_1", "verdict_2"]
    else:
        both = compare(read(first), read(second), moved(measured_in(first), measured_in(second)))
        shown = [*ROW, "loss_1", "upper_1", "loss_2", "upper_2", "change", "moved", "p_value", "verdict_1", "verdict_2"]
    if out is not None:
        write(both, out)
        tell(out.resolve())
    else:
        show(both.to_dicts() if as_json else both.select(shown).to_dicts(), as_json)
