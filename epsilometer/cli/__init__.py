"""The command line. A user's error ends with exit code 2 and one message; results go to standard output, notes do not.

A command is a function in the file of its group: it reads options, makes one call, and prints. Heavy imports stand in
the commands, so that `epsilometer --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from epsilometer.cli import audit, calibrate, claims, components, export, pipeline, project, rewrite
from epsilometer.core.errors import UserError, disk_trouble

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Measure how much privacy a text privatization mechanism really gives.",
)
for command in (
    audit.audit,
    rewrite.rewrite,
    calibrate.calibrate,
    calibrate.compare,
    claims.claims,
    claims.plan,
    components.mechanisms,
    components.bounds,
    project.check,
    project.report,
    project.accept,
    project.history,
    export.export,
    export.results,
    export.diff,
):
    app.command()(command)
app.command()(pipeline.stage)
app.command(context_settings=pipeline.PASSED_ON)(pipeline.repro)
app.command()(pipeline.why)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point `epsilometer`."""
    try:
        app(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        denied = f"{error.filename} may not be read or written; change its permissions"
        trouble = denied if isinstance(error, PermissionError) else disk_trouble(error)
        if trouble is None:
            raise
        print(f"error: {trouble}, then run again", file=sys.stderr)
        sys.exit(2)
