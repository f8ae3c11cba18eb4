"""The commands of `epsilometer` and of its studies. Each command is a function in the file of its group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from epsilometer.cli import (
    ask,
    audit,
    calibrate,
    check,
    claims,
    components,
    decide,
    exact,
    gate,
    init,
    pipeline,
    release,
    results,
    rewrite,
    watch,
)
from epsilometer.cli.command import Command, Group
from epsilometer.cli.options import flat
from epsilometer.cli.output import tell
from epsilometer.core.file_names import SHOW, names_shown
from epsilometer.core.study import studies
from epsilometer.core.version import VERSION

_PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}

app = typer.Typer(cls=Group, **_PLAIN)


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
        bool,
        typer.Option(
            "--show-errors", help="Show errors and prints of mechanisms and libraries, which may quote a private text."
        ),
    ] = False,
) -> None:
    """Measure how much privacy a text privatization mechanism really gives."""
    if show_errors:
        os.environ[SHOW] = "1"  # also for child processes
        context.with_resource(names_shown(True))


def _group(name: str, about: str) -> typer.Typer:
    """Return a command that has subcommands."""
    group = typer.Typer(cls=TyperGroup, help=about, no_args_is_help=True, **_PLAIN)
    app.add_typer(group, name=name)
    return group


def _add(commands: Mapping[str, Callable[..., None]], group: typer.Typer) -> None:
    for name, command in commands.items():
        group.command(name, cls=Command)(flat(command))


_add(
    {
        "audit": audit.audit,
        "ask": ask.ask,
        "gate": gate.gate,
        "decide": decide.decide,
        "rewrite": rewrite.rewrite,
        "release": release.release,
        "list": components.listed,
        "init": init.init,
    },
    app,
)
checks = _group("check", "Check a project, a component, or this machine.")
_add(
    {
        "params": check.params,
        "mechanism": check.mechanism,
        "attack": check.attack,
        "metric": check.metric,
        "machine": check.machine,
    },
    checks,
)
stages = _group("pipeline", "Run the stages of a project, or say why they are stale.")
stages.command(context_settings=pipeline.PASSED_ON)(pipeline.repro)
for command in (pipeline.why, pipeline.compose, pipeline.stage):
    stages.command()(command)
shown = _group("results", "Show, export and compare the results of a project.")
_add(
    {
        "show": results.report,
        "export": results.export,
        "dossier": results.dossier,
        "diff": results.diff,
        "history": results.history,
        "accept": results.accept,
        "tables": results.tables,
    },
    shown,
)
_add(
    {
        "compare": calibrate.compare,
        "calibrate": calibrate.calibrate,
        "reaudit": decide.reaudit,
        "watch": watch.watch,
        "claims": claims.claims,
        "plan": claims.plan,
        "exact": exact.exact,
    },
    app,
)
_add({"bounds": components.bounds}, app)
_groups = {"check": checks, "pipeline": stages, "results": shown}
for study in studies():
    _groups |= {name: _group(name, about) for name, about in study.groups.items()}
    for words, command in study.commands().items():
        group, _, name = words.rpartition(" ")
        _add({name: command}, _groups[group] if group else app)
