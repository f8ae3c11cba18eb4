"""The results of a project, and their comparison with those of another audit: `epsilometer results`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from epsilometer.cli.options import Columns, Epsilon, Json, numbers, out_option, schema_option, writable
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError, unknown

_FORMATS = ("csv", "json", "md", "tex")

TableName = Annotated[
    str, typer.Option("--table", help="Table of the audit: estimates, claims, exact, similarity, ...")
]


def report(as_json: Json = False) -> None:
    """Print the path of the report, and its estimates.

    If a run audits no texts, the first table of each study is printed instead.
    """
    from epsilometer.pipeline import params, reporting
    from epsilometer.report import page
    from epsilometer.report.export import read

    shown = ["dataset", "mechanism", "epsilon", "attack", "trials", "loss", "point", "upper", "ceiling", "overall"]
    studied = reporting.first_tables(params.read())
    estimates = read(Path()) if studied is None else None
    page.refresh()
    if not page.PAGE.is_file():
        raise UserError(f"{page.PAGE} does not exist; `dvc repro` makes it", "EPS-U064")
    if as_json:
        tables = {"tables": studied} if estimates is None else {"estimates": estimates.to_dicts()}
        show({"report": str(page.PAGE.resolve()), **tables}, as_json)
        return
    if estimates is not None:
        show(estimates.select(shown).to_dicts(), as_json)
    for heading, rows in (studied or {}).items():
        tell(f"\n{heading}\n")
        show(rows, as_json)
    tell(f"\n{page.PAGE.resolve()}")


def tables(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write (default: results/PROFILE of the project).", file_okay=False),
    ] = None,
) -> None:
    """Write all tables as data, and cite them.

    The tables come with the date, commit, hardware and minutes of the audit. The command then updates
    the figures that the project's pages in docs/ cite from these tables.
    """
    from epsilometer.pipeline.params import read
    from epsilometer.pipeline.reporting import write_tables
    from epsilometer.report import claims

    written = write_tables(read(), out)
    tell(written.resolve())
    for page in claims.fill(written.parents[1]) if out is None else ():
        tell(f"{page.resolve()}: figures filled")


def export(
    file: Annotated[
        Path | None,
        typer.Argument(help="File to write: .csv, .json, .md (Markdown) or .tex (LaTeX).", callback=writable),
    ] = None,
    run: Annotated[Path, typer.Option(help="Folder of the audit.")] = Path(),
    table: TableName = "estimates",
    columns: Columns = None,
    form: Annotated[
        str | None, typer.Option("--format", help="csv, json, md or tex (default: by the ending of FILE).")
    ] = None,
    mechanism: Annotated[list[str], typer.Option(help="Only this mechanism; repeatable.")] = [],  # noqa: B006
    attack: Annotated[list[str], typer.Option(help="Only this attack; repeatable.")] = [],  # noqa: B006
    epsilons: Annotated[str | None, typer.Option(help="Only these privacy budgets: 1,10,100.")] = None,
) -> None:
    """Write or print a table, for a paper or a spreadsheet.

    Without FILE the table is printed. Estimates have their main columns, other tables all columns. In Markdown and
    LaTeX lower bounds are rounded down, upper bounds up, and a loss that reached its ceiling is marked ≥. There, the
    column `interval` is the loss with its bounds: `.82 [.6, 1.1]`.
    """
    from epsilometer.auditing.results.losses import ALL, chosen
    from epsilometer.report import export as tables

    only = tables.Filter(mechanism, attack, numbers(epsilons, "--epsilons must be numbers separated by commas") or ())

    if form is not None and form not in _FORMATS:
        raise unknown("--format", form, _FORMATS)
    if file is None and form is None:
        raise UserError(f"give a FILE, or a --format ({', '.join(_FORMATS)}) to print", "EPS-U072")
    suffix = None if form is None else f".{form}"
    every = only.of(tables.read_table(run, table))
    whole = tables.with_intervals(every)
    short = tables.SHORT_MARKUP if (suffix or (file and file.suffix)) in (".md", ".tex") else tables.SHORT
    there = every.columns if columns in (None, ALL) else whole.columns
    wanted = chosen(columns, there, short if table == tables.ESTIMATED else every.columns)
    if file is not None:
        tables.write(whole, file, suffix, wanted)
        tell(file.resolve())
    else:
        tell(tables.rendered(whole, str(suffix), wanted), end="")


def diff(
    first: Annotated[Path, typer.Argument(help="The folder of an audit: . or runs/NAME.")],
    second: Annotated[Path, typer.Argument(help="The folder of the audit to compare with.")],
    table: TableName = "estimates",
    out: Annotated[Path | None, out_option(writable)] = None,
    as_json: Json = False,
) -> None:
    """Compare the losses of two audits, row by row.

    Estimates that changed by more than chance come first; `--table exact` compares exact losses. --out writes all
    columns (.csv, .json, .md or .tex). `change` is the second plug-in value minus the first. `p_value` is for
    equal rates of hits, corrected for the number of rows. `moved` is `worse` if the second leaks more (an error of 1 %
    for all rows together), and `not testable` if no number of hits could have shown that.
    """
    from epsilometer.pipeline.measured import measured_in
    from epsilometer.report.export import read, read_exact, write
    from epsilometer.report.side_by_side import EXACT_ROW, ROW, compare, compare_exact, moved

    if table not in ("estimates", "exact"):
        raise unknown("--table", table, ["estimates", "exact"])
    if table == "exact":
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


def history(
    mechanism: Annotated[str | None, typer.Argument(help="Only this mechanism.")] = None, as_json: Json = False
) -> None:
    """Print the losses of earlier audits.

    Each cell of the project gets the loss of its strongest attack; --json prints the losses of all attacks. A project
    with only `anonymity` gets the losses of every attacker.
    """
    from epsilometer.auditing.results.diagnostics import STRONGEST
    from epsilometer.pipeline.params import read
    from epsilometer.reaudit import history as past

    table = past.read()
    if table.is_empty():
        read()  # refuses a folder that holds no project
        raise UserError(
            f"{past.FILE} has no audit yet; run `epsilometer results accept` or a re-audit first", "EPS-U065"
        )
    if mechanism is not None:
        if mechanism not in table["mechanism"]:
            raise unknown("mechanism in the history", mechanism, table["mechanism"].unique())
        table = table.filter(mechanism=mechanism)
    if as_json:
        show(table.to_dicts(), as_json)
    else:
        dates = past.audits(table)
        best = table.filter(attack=STRONGEST)
        show(past.courses(table if best.is_empty() else best.drop("attack")), as_json)
        tell(f"\n{len(dates)} audits from {dates[0]} to {dates[-1]}; losses in nats, as measured")


def accept() -> None:
    """Make the last audit the baseline of re-audits."""
    from epsilometer.pipeline.measured import accept as accept_audit
    from epsilometer.pipeline.params import read
    from epsilometer.reaudit.baseline import FOLDER

    accepted = accept_audit(read())
    tell(f"{FOLDER} holds the baseline, {len(accepted.measured)} estimates; commit it to git")


def _schema() -> dict[str, Any]:
    from epsilometer.report.cells.dossier import schema

    return schema()


def dossier(
    cell: Annotated[str, typer.Argument(help="A cell of params.yaml, such as queries-tem.")],
    epsilon: Epsilon = None,
    texts_per_person: Annotated[
        int | None,
        typer.Option(
            help="Confirmed maximum number of texts of a person (default: 1, which the page marks as assumed)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("reports/dossier"),
    schema: Annotated[bool, schema_option(_schema)] = False,
) -> None:
    """Write two pages about one release, for a decision.

    One page is for the signature, the other has the evidence.

    Both are written as HTML, PDF and JSON. The default of --epsilon is the largest budget within the limits, else the
    smallest budget. No text is shown. An unfinished audit is refused.
    """
    from epsilometer.pipeline.dossier import write
    from epsilometer.pipeline.params import read

    tell(*(path.resolve() for path in write(read(), cell, epsilon, out, texts_per_person=texts_per_person)))
