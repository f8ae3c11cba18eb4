"""A project and its audits: `epsilometer check`, `report`, `accept` and `history`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilometer.cli.options import Json
from epsilometer.cli.output import show
from epsilometer.core.errors import UserError


def check(
    file: Annotated[Path, typer.Argument(help="The parameter file.")] = Path("params.yaml"), as_json: Json = False
) -> None:
    """Validate a parameter file and what it names."""
    from epsilometer.project import checking, params

    downloads = checking.check(params.read(file))
    if as_json:
        show({"file": str(file), "downloads": downloads}, as_json)
    else:
        print(f"{file} is valid", *(f"would be downloaded: {name}" for name in downloads), sep="\n", flush=True)


def report(as_json: Json = False) -> None:
    """Print where the report is, and its estimates."""
    from epsilometer.core import tables
    from epsilometer.report import page

    shown = ["dataset", "mechanism", "epsilon", "attack", "trials", "loss", "point", "upper", "ceiling", "verdict"]
    _need_project()
    estimates = tables.read("data/estimates.parquet", tables.ESTIMATES)
    page.refresh()
    if not page.PAGE.is_file():
        raise UserError(f"{page.PAGE} does not exist; `dvc repro` makes it")
    if as_json:
        show({"report": str(page.PAGE.resolve()), "estimates": estimates.to_dicts()}, as_json)
    else:
        show(estimates.select(shown).to_dicts(), as_json)
        print(f"\n{page.PAGE.resolve()}", flush=True)


def accept() -> None:
    """Make the last audit the baseline that re-audits are compared with."""
    from epsilometer.core import tables
    from epsilometer.project.commit import commit
    from epsilometer.project.params import read
    from epsilometer.reaudit import baseline, history, sources
    from epsilometer.report import page

    params, at = read(), commit(Path()).short
    estimates = tables.read("data/estimates.parquet", tables.ESTIMATES)
    past = history.read()
    accepted = baseline.accept(params, sources.records(sources.found(params)), at)
    if not history.ends_with(past, estimates, params.audit.round):
        history.append(estimates, at, params.audit.round)
    page.refresh()
    print(f"{baseline.FOLDER} holds the baseline, {len(accepted.measured)} estimates; commit it to git", flush=True)


def history(
    mechanism: Annotated[str | None, typer.Option(help="Of this mechanism alone.")] = None, as_json: Json = False
) -> None:
    """How the loss of every cell went from audit to audit: the strongest attack's (with --json those of all)."""
    from epsilometer.auditing.diagnostics import STRONGEST
    from epsilometer.core.errors import unknown
    from epsilometer.reaudit import history as past

    table = past.read()
    if table.is_empty():
        _need_project()
        raise UserError(f"{past.FILE} has no audit yet; `epsilometer accept` and re-audits write it")
    if mechanism is not None:
        if mechanism not in table["mechanism"]:
            raise unknown("mechanism in the history", mechanism, table["mechanism"].unique())
        table = table.filter(mechanism=mechanism)
    if as_json:
        show(table.to_dicts(), as_json)
    else:
        dates = past.audits(table)
        show(past.courses(table.filter(attack=STRONGEST).drop("attack")), as_json)
        print(f"\n{len(dates)} audits from {dates[0]} to {dates[-1]}; losses in nats, as measured", flush=True)


def _need_project() -> None:
    """Refuse a folder that holds no project."""
    if not Path("params.yaml").is_file():
        from epsilometer.project.params import NO_PROJECT

        raise UserError(f"there is no params.yaml here; {NO_PROJECT}")
