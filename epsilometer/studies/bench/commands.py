"""`epsilometer check estimators`: estimators on mechanisms whose loss is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import Json, Workers
from epsilometer.cli.output import show, tell
from epsilometer.runtime.withholding import withheld


def estimators(
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Run 200 seeds of 10,000 samples and five of a million, instead of 20 seeds of 10,000."
        ),
    ] = False,
    auditor: Annotated[
        Path | None, typer.Option(help="File (.py) of a further auditor: a function bound(samples, error, delta).")
    ] = None,
    workers: Workers = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the tables and their figure, such as results/truth.", file_okay=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run estimators on mechanisms whose loss is known.

    Prints, for each mechanism and estimator: the true loss, the bound, its coverage, samples and seconds.
    """
    from epsilometer.studies.bench.bench import FULL, QUICK
    from epsilometer.studies.bench.bench import bench as run

    with withheld():
        table = run(FULL if full else QUICK, auditor, workers)
    if out is not None:
        from epsilometer.studies.bench.report import write

        write(table, out)
        tell(out.resolve())
    else:
        shown = (
            table
            if as_json
            else table.select("mechanism", "estimator", "truth", "bound", "coverage", "samples", "seconds")
        )
        show(shown.to_dicts(), as_json)
