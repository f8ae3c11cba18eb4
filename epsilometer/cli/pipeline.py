"""The stages of a project: `epsilometer pipeline`."""

from __future__ import annotations

from typing import Annotated

import typer

from epsilometer.cli import check, results
from epsilometer.cli.output import tell
from epsilometer.runtime.progress import note, say

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}


def stage(
    name: Annotated[str, typer.Argument(help="A stage of dvc.yaml.")],
    entry: Annotated[str | None, typer.Argument(help="Entry of a stage that has several.")] = None,
) -> None:
    """Run one stage, as dvc.yaml does."""
    from epsilometer.pipeline.guard import entry as program

    program.stage(name, *([entry] if entry is not None else []))


def repro(context: typer.Context) -> None:
    """Bring stages up to date, and show the report.

    Checks params.yaml, restores damaged files, then runs `dvc repro`, one run at a time. Without arguments
    it runs the whole audit, and then shows the report. With stages it runs these and their dependencies; a missing file
    stops only the stages that need it. Options are passed on; `dvc repro --help` lists them.
    """
    from epsilometer.pipeline.checking import AbsentError
    from epsilometer.pipeline.repro import main

    try:
        check.params()
    except AbsentError as absent:
        if not context.args:
            raise
        note(f"stages that need a missing file cannot run: {absent}")
    main(context.args)
    if not context.args:
        results.report()


def compose() -> None:
    """Write the stages that params.yaml needs to dvc.yaml."""
    from epsilometer.pipeline import composing
    from epsilometer.pipeline.params import read

    written = composing.write(read())
    tell(f"{composing.FILE} {'has' if written else 'had'} the stages that params.yaml needs")


def why(
    stage: Annotated[str | None, typer.Argument(help="A stage, such as rewrite@queries-tem (default: all).")] = None,
) -> None:
    """List the changes since a stage last ran.

    Changes are of files, packages, settings and inputs.
    """
    from epsilometer.pipeline.current import records
    from epsilometer.pipeline.params import read
    from epsilometer.pipeline.why import addresses, reasons

    now = records(read())
    stale = 0
    for name in addresses(stage):
        if changes := reasons(name, now):
            tell(f"{name}:", *(f"  {line}" for line in changes))
            stale += 1
    if not stale:
        say("nothing has changed" if stage is None else f"nothing has changed since {stage} ran")
