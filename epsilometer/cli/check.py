"""Checks of a parameter file, of components and of this machine: `epsilometer check`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilometer.cli.options import A_MECHANISM, Epsilon, Json, Settings, read_settings
from epsilometer.cli.output import show, tell
from epsilometer.core.errors import printable
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    from epsilometer.auditing.conformance.rules import Check
    from epsilometer.pipeline.downloads import Download, Packaged
    from epsilometer.pipeline.params import Params


def params(
    file: Annotated[Path, typer.Argument(help="The parameter file, or a profile.")] = Path("params.yaml"),
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Download missing files; then an audit needs no network.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Validate a parameter file, and list its downloads.

    The downloads are models and data from the hub and from packages. --fetch also verifies the hashes of files that
    are already here.
    """
    from epsilometer.pipeline import checking, composing, downloads
    from epsilometer.pipeline.params import read as read_params

    read = read_params(file)
    if fetch:
        downloads.fetch(read)
        tell(f"every download of {file} is here; with HF_HUB_OFFLINE=1 an audit does not contact the hub")
        return
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
    """Return the questions of a parameter file, each with its mechanism and data set."""
    return [
        {"name": name, "question": of.question, "mechanism": of.mechanism, "dataset": of.dataset}
        for name, of in params.questions.items()
    ]


def _list(file: Path, params: Params, every: Sequence[Download]) -> None:
    """Print an audit's downloads from packages and the hub, and the expected cost of its models.

    For missing downloads, also prints the command that fetches them.
    """
    from epsilometer.pipeline import downloads, expected
    from epsilometer.runtime.hub import amount

    if packages := downloads.packaged(params):
        show([_in_a_package(each) for each in packages], as_json=False)
        if any(each.content is None for each in packages):
            tell(f"`epsilometer check params {file} --fetch` downloads the missing packages; a run does so too")
    if not every:
        return
    show([_on_the_hub(download) for download in every], as_json=False)
    if missing := [download for download in every if not download.here]:
        size = sum((download.size or 0) - download.state.here - download.state.begun for download in missing)
        tell(f"`epsilometer check params {file} --fetch` downloads the missing files, at least {amount(size)}")
    if takes := expected.expected(params):
        tell(*takes, expected.ASSUMED)


def _on_the_hub(download: Download) -> dict[str, Any]:
    """Return the row of a download from the hub."""
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
    """Return the row of a file that a package contains."""
    from epsilometer.runtime.hub import amount

    licence = "known once fetched" if packaged.content is None else packaged.licence or "not stated"
    return {
        "from a package": f"{packaged.pin.name} {packaged.pin.version}",
        "file": packaged.pin.file,
        "licence": licence,
        "size": "known once fetched" if packaged.size is None else amount(packaged.size),
        "state": "missing" if packaged.content is None else "here",
    }


def mechanism(
    name: Annotated[str, typer.Argument(help=A_MECHANISM)],
    epsilon: Epsilon = None,
    settings: Settings = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
) -> None:
    """Run the conformance tests of a mechanism.

    They run at epsilon 1 by default. The exit code is 1 if a rule is broken.
    """
    from epsilometer.auditing.conformance import named

    with withheld():
        checks = named.of_mechanism(name, read_settings(settings), epsilon)
    _conclude(
        checks,
        as_json,
        f"Not checked: whether a claim holds (epsilometer claims {name} --epsilon EPSILON computes its worst case), "
        f"and what rewrites reveal (epsilometer audit TEXTS --mechanism {name}).",
    )


def attack(
    name: Annotated[str, typer.Argument(help="An attack on texts, members or gradients: its name, or a .py file.")],
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Run the conformance tests of an attack.

    The exit code is 1 if a rule is broken.
    """
    from epsilometer.auditing.conformance import named

    with withheld():
        checks = named.of_attack(name, read_settings(settings))
    _conclude(checks, as_json)


def metric(
    name: Annotated[str, typer.Argument(help="A metric: its name, or a .py file.")],
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Run the conformance tests of a metric.

    The exit code is 1 if a rule is broken.
    """
    from epsilometer.auditing.conformance import named

    with withheld():
        checks = named.of_metric(name, read_settings(settings))
    _conclude(checks, as_json)


def _conclude(checks: Sequence[Check], as_json: bool, unchecked: str | None = None) -> None:
    """Print the rules with their problems, then `unchecked`; the exit code is 1 if a rule is broken."""
    if as_json:
        show([asdict(check) for check in checks], as_json)
    else:
        lines = [
            f"ok      {c.rule}{f' ({c.remark})' if c.remark else ''}"
            if c.problem is None
            else f"FAILED  {c.rule}: {c.problem}"
            for c in checks
        ]
        tell(printable("\n".join([*lines, *([] if unchecked is None else [unchecked])])))
    if any(check.problem for check in checks):
        raise typer.Exit(1)


def machine(as_json: Json = False) -> None:
    """List what this machine can run, and what would be slow."""
    from epsilometer.runtime.machine import examined

    lines = examined(Path())
    if as_json:
        show(lines, as_json)
    else:
        tell(*(f"{topic:<12} {line}" for topic, line in lines.items()))
