"""The commands of `epsilometer`, each a function in the file of its group."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from epsilometer.cli import (
    account,
    anonymize,
    ask,
    audit,
    bench,
    calibrate,
    canaries,
    claims,
    components,
    decide,
    dossier,
    exact,
    export,
    failures,
    gate,
    init,
    pipeline,
    project,
    rewrite,
    watch,
)
from epsilometer.cli.command import Command, Group
from epsilometer.cli.options import flat
from epsilometer.cli.output import tell
from epsilometer.core.file_names import SHOW, names_shown
from epsilometer.core.version import VERSION

app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        tell(VERSION)
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version)
    ] = False,
    show_errors: Annotated[
        bool, typer.Option("--show-errors", help="Show what may quote a private text: errors and prints of others.")
    ] = False,
) -> None:
    """Measure how much privacy a text privatization mechanism really gives."""
    if show_errors:
        os.environ[SHOW] = "1"  # also for the processes that are started
        context.with_resource(names_shown(True))


for command in (
    audit.audit,
    ask.ask,
    failures.probe,
    exact.exact,
    rewrite.rewrite,
    anonymize.anonymize,
    calibrate.calibrate,
    calibrate.compare,
    canaries.canaries,
    canaries.one_run,
    claims.claims,
    claims.plan,
    account.account,
    components.bounds,
    gate.gate,
    gate.schema,
    decide.decide,
    decide.reaudit,
    dossier.dossier,
    bench.bench,
    init.init,
    project.check,
    project.fetch,
    project.doctor,
    project.report,
    project.accept,
    project.history,
    watch.watch,
    export.export,
    export.results,
    export.diff,
):
    app.command(cls=Command)(flat(command))
app.command("list", cls=Command)(flat(components.listed))
app.command()(pipeline.stage)
app.command(context_settings=pipeline.PASSED_ON)(pipeline.repro)
app.command()(pipeline.compose)
app.command()(pipeline.why)
