"""A project and its audits: `epsilometer check`, `fetch`, `report`, `accept` and `history`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import A_MECHANISM, Json, Settings, read_settings
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import UserError, printable
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    from epsilometer.auditing.conformance.rules import Check
    from epsilometer.pipeline.downloads import Download, Packaged
    from epsilometer.pipeline.params import Params


def check(
    file: Annotated[Path, typer.Argument(help="The parameter file.")] = Path("params.yaml"),
    mechanism: Annotated[str | None, typer.Option(help=f"Conformance tests of a mechanism: {A_MECHANISM}")] = None,
    attack: Annotated[
        str | None, typer.Option(help="Conformance tests of an attack: on texts, members or gradients.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Conformance tests of a metric, by name or path.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of a mechanism (default: 1).")] = None,
    settings: Settings = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
) -> None:
    """Validate a parameter file, and list what it names on the hub and in packages.

    Or run conformance tests on a component (1: failed).
    """
    if mechanism or attack or metric:
        checks = _check_component(mechanism, attack, metric, epsilon, settings=read_settings(settings))
        return _show_checks(checks, as_json, mechanism)
    from epsilometer.pipeline import checking, composing, downloads, params

    read = params.read(file)
    if file == Path("params.yaml") and composing.FILE.is_file():
        composing.check(read)
    try:
        every: Sequence[Download] = checking.check(read)
    except checking.AbsentError as error:
        if not as_json:
            _list(file, read, error.downloads)
        raise
    if as_json:
        from epsilometer.pipeline.expected import expected

        names = [str(download.repository) for download in every if not download.here]
        takes = [asdict(takes) for takes in expected(read)] if every else []
        rows = {"hub": [*map(_on_the_hub, every)], "packages": [*map(_in_a_package, downloads.packaged(read))]}
        shown = {"file": str(file), "downloads": names, **rows, "expected": takes}
        show(shown | ({"questions": _questions(read)} if read.questions else {}), as_json)
        return
    questions = ("question {name}: {question} of {mechanism} on {dataset}".format(**each) for each in _questions(read))
    tell(f"{file} is valid", *questions)
    _list(file, read, every)


def _questions(params: Params) -> list[dict[str, str]]:
    """The questions of a parameter file, each with its mechanism and data set."""
    return [
        {"name": name, "question": of.question, "mechanism": of.mechanism, "dataset": of.dataset}
        for name, of in params.questions.items()
    ]


def _list(file: Path, params: Params, every: Sequence[Download]) -> None:
    """Print the packages and repositories of an audit, their missing files, and the expected cost of its models."""
    from epsilometer.pipeline import downloads, expected
    from epsilometer.runtime.hub import amount

    if packages := downloads.packaged(params):
        show([_in_a_package(each) for each in packages], as_json=False)
        if any(each.content is None for each in packages):
            tell(f"`epsilometer fetch {file}` downloads the missing packages; a run does so, too")
    if not every:
        return
    show([_on_the_hub(download) for download in every], as_json=False)
    if missing := [download for download in every if not download.here]:
        size = sum((download.size or 0) - download.state.here - download.state.begun for download in missing)
        tell(f"`epsilometer fetch {file}` brings what is missing, at least {amount(size)}")
    if takes := expected.expected(params):
        tell(*takes, expected.ASSUMED)


def fetch(
    file: Annotated[Path, typer.Argument(help="The parameter file, or a profile.")] = Path("params.yaml"),
) -> None:
    """Download what a parameter file names on the hub and in packages, and compare hashes.

    Afterwards an audit needs no network.
    """
    from epsilometer.pipeline import downloads, params

    downloads.fetch(params.read(file))
    tell(f"all that {file} names on the hub and in packages is here; HF_HUB_OFFLINE=1 keeps it so")


def _on_the_hub(download: Download) -> dict[str, Any]:
    """A row of what is read from the hub."""
    from epsilometer.runtime.hub import amount

    about = "about " if download.about and download.size is not None else ""
    there = download.state.here + download.state.begun
    part = f"{amount(there)} of it here" if there else "missing"
    return {
        "from the hub": re.sub(r"@([0-9a-f]{7})[0-9a-f]{33}$", r"@\1", str(download.repository)),
        "size": "known once fetched" if download.size is None else about + amount(download.size),
        "state": "here" if download.here else part,
    }


def _in_a_package(packaged: Packaged) -> dict[str, Any]:
    """A row about a package's file."""
    from epsilometer.runtime.hub import amount

    licence = "known once fetched" if packaged.content is None else packaged.content.licence or "not stated"
    return {
        "from a package": f"{packaged.pin.name} {packaged.pin.version}",
        "file": packaged.pin.file,
        "licence": licence,
        "size": "known once fetched" if packaged.size is None else amount(packaged.size),
        "state": "missing" if packaged.content is None else "here",
    }


def _check_component(
    mechanism: str | None, attack: str | None, metric: str | None, epsilon: float | None, settings: dict[str, Any]
) -> list[Check]:
    from epsilometer.auditing.conformance import named

    if sum(name is not None for name in (mechanism, attack, metric)) != 1:
        raise UserError("give one of --mechanism, --attack and --metric", "EPS-U063")
    with withheld():
        if mechanism is not None:
            return named.of_mechanism(mechanism, settings, epsilon)
        if attack is not None:
            return named.of_attack(attack, settings)
        return named.of_metric(str(metric), settings)


def _show_checks(checks: Sequence[Check], as_json: bool, mechanism: str | None) -> None:
    """Print the rules and what breaks them, last what was not checked; the exit code is 1 where one is broken."""
    if as_json:
        show([asdict(check) for check in checks], as_json)
    else:
        lines = [
            f"ok      {c.rule}{f' ({c.remark})' if c.remark else ''}"
            if c.problem is None
            else f"FAILED  {c.rule}: {c.problem}"
            for c in checks
        ]
        if mechanism is not None:
            lines.append(
                f"Not checked: whether a claim holds (epsilometer claims {mechanism} --epsilon EPSILON computes its "
                f"worst case), and what rewrites give away (epsilometer audit TEXTS --mechanism {mechanism})."
            )
        tell(printable("\n".join(lines)))
    if any(check.problem for check in checks):
        raise typer.Exit(1)


def doctor(as_json: Json = False) -> None:
    """Say what this machine and installation can do, and what would be slow here."""
    from epsilometer.runtime.machine import examined

    lines = examined(Path())
    if as_json:
        show(lines, as_json)
    else:
        tell(*(f"{topic:<12} {line}" for topic, line in lines.items()))


def report(as_json: Json = False) -> None:
    """Print where the report is, and the estimates; of a run that audits no texts the first table of each study."""
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


def accept() -> None:
    """Make the last audit the baseline that re-audits are compared with."""
    from epsilometer.pipeline.measured import accept as accept_audit
    from epsilometer.pipeline.params import read
    from epsilometer.reaudit.baseline import FOLDER

    accepted = accept_audit(read())
    tell(f"{FOLDER} holds the baseline, {len(accepted.measured)} estimates; commit it to git")


def history(
    mechanism: Annotated[str | None, typer.Option(help="Only this mechanism.")] = None, as_json: Json = False
) -> None:
    """How the loss of every cell went from audit to audit: the strongest attack's (with --json those of all).

    Of a project of `anonymity` alone that of every attacker.
    """
    from epsilometer.auditing.results.diagnostics import STRONGEST
    from epsilometer.core.errors import unknown
    from epsilometer.pipeline.params import read
    from epsilometer.reaudit import history as past

    table = past.read()
    if table.is_empty():
        read()  # refuses a folder that holds no project
        raise UserError(f"{past.FILE} has no audit yet; `epsilometer accept` and re-audits write it", "EPS-U065")
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
