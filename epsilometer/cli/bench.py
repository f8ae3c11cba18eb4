"""`epsilometer bench`: estimators on mechanisms whose loss is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import Json, writable
from epsilometer.cli.output import show, tell
from epsilometer.runtime.withholding import withheld


def bench(
    full: Annotated[
        bool, typer.Option("--full", help="200 seeds of 10,000 samples and five of a million, not 20 of 10,000.")
    ] = False,
    auditor: Annotated[
        Path | None, typer.Option(help="File (.py) with a function bound(samples, error, delta), a further auditor.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="File (.md) for the table and its figure.", callback=writable)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what estimators say of mechanisms whose loss is known: truth, bound, coverage, samples, seconds."""
    from epsilometer.auditing.truth.bench import FULL, QUICK
    from epsilometer.auditing.truth.bench import bench as run
    from epsilometer.core.errors import UserError

    if out is not None and out.suffix != ".md":
        raise UserError(f"--out must be a Markdown file, which ends in .md, got {out.name!r}", "EPS-U019")
    with withheld():
        table = run(FULL if full else QUICK, auditor, workers)
    if out is not None:
        from epsilometer.report.truth import write

        write(table, out)
        tell(out.resolve())
    else:
        shown = (
            table
            if as_json
            else table.select("mechanism", "estimator", "truth", "bound", "coverage", "samples", "seconds")
        )
        show(shown.to_dicts(), as_json)
