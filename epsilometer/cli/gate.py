"""`epsilometer gate` and `schema`: whether a mechanism leaks more than it may, as an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.options import A_MECHANISM, TEXTS, Settings, Text, read_settings, read_texts
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    from epsilometer.auditing.estimation.successes import Estimate
    from epsilometer.auditing.gating import Subject


def gate(
    file: Annotated[Path | None, typer.Argument(help=TEXTS)] = None,
    mechanism: Annotated[str | None, typer.Option(help=A_MECHANISM)] = None,
    command: Annotated[str | None, typer.Option(help="A program: 'prog --eps {epsilon}', lines in, lines out.")] = None,
    cell: Annotated[str | None, typer.Option(help="A cell of params.yaml, on its own texts.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget; none for a mechanism without one.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="What was accepted: a file that --accept wrote; with --cell the folder baseline."),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Measure, and write --baseline; nothing is judged.")] = False,
    max_loss: Annotated[float | None, typer.Option(help="The largest loss allowed, in nats.")] = None,
    max_increase: Annotated[float, typer.Option(help="Over the baseline, in nats: what is not to be missed.")] = 0.3,
    budget: Annotated[int, typer.Option(help="Most rewrites; with --accept how many.")] = 20_000,
    attacks: Annotated[str | None, typer.Option(help="Attacks, separated by commas.")] = None,
    text: Text = ["text"],  # noqa: B006 - typer copies it
    settings: Settings = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Names every random stream.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write JSON (`epsilometer schema`).")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown, for a pull request.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF.")] = None,
) -> None:
    """Decide whether a mechanism leaks more than it may, on as few fresh trials as that takes.

    Prints three lines. Ends with 0 (passed), 1 (it leaks more than a limit allows) or 3 (undecided within the budget).
    """
    from epsilometer.auditing.gate import STANDARD
    from epsilometer.auditing.gating import Rules, write
    from epsilometer.auditing.gating import gate as judge
    from epsilometer.auditing.gating import measure as count
    from epsilometer.core.atomic import write_text
    from epsilometer.core.guarantees import stored
    from epsilometer.report import gate as formats

    if sum(given is not None for given in (mechanism, command, cell)) != 1:
        raise UserError("give one of --mechanism, --command and --cell")
    rules = Rules(max_loss, max_increase, budget)  # refused before any model loads
    of = (
        _of_cell(str(cell), epsilon)
        if cell
        else _of_texts(file, mechanism, command, epsilon, text=text, settings=settings, attacks=attacks, seed=seed)
    )
    if accept:
        if baseline is None or cell:
            raise UserError(
                "--accept writes --baseline, of a mechanism or program; a project's is `epsilometer accept`"
            )
        write(count(of, budget), baseline)
        note(f"accepted as {baseline}; judge later runs by the same command without --accept")
        return
    accepted = _accepted(of, baseline, cell)
    decision = formats.Decision(
        of.name, stored(of.epsilon), of.design.k, errors=STANDARD, verdict=judge(of, rules, accepted)
    )
    print(*formats.lines(decision), sep="\n", flush=True)
    written = {
        json_file: formats.as_json,
        markdown: formats.markdown,
        junit: formats.junit,
        sarif: lambda it: formats.sarif(it, mechanism or "params.yaml"),
    }
    for path, form in written.items():
        if path is not None:
            write_text(form(decision), path)
    sys.exit(decision.exit_code)


def schema() -> None:
    """Print the JSON schema of what `epsilometer gate --json` writes."""
    import json

    from epsilometer.report.gate import schema

    print(json.dumps(schema(), indent=1), flush=True)


def _of_texts(
    file: Path | None,
    mechanism: str | None,
    command: str | None,
    epsilon: float | None,
    *,
    text: list[str],
    settings: list[str],
    attacks: str | None,
    seed: int,
) -> Subject:
    from epsilometer.auditing.external import CommandMechanism
    from epsilometer.auditing.gating import subject
    from epsilometer.auditing.trials.design import Design

    if file is None:
        raise UserError("give a FILE of texts (only --cell needs none)")
    named = CommandMechanism(command) if command is not None else str(mechanism)
    chosen = None if attacks is None else attacks.split(",")
    texts, given = read_texts(str(file), text), read_settings(settings)
    return subject(texts, named, epsilon, chosen, settings=given, design=Design(seed=seed))


def _of_cell(cell: str, epsilon: float | None) -> Subject:
    from epsilometer.project.gating import subject_of_cell
    from epsilometer.project.params import read

    return subject_of_cell(read(), cell, epsilon)


def _accepted(of: Subject, baseline: Path | None, cell: str | None) -> dict[str, Estimate] | None:
    if baseline is None:
        return None
    if cell is None:
        from epsilometer.auditing.gating import read

        return read(baseline, of, of.design.alpha)
    from epsilometer.core.guarantees import stored
    from epsilometer.project.params import read as read_params
    from epsilometer.reaudit.baseline import read as read_baseline
    from epsilometer.reaudit.baseline import trial_set

    params, accepted = read_params(), read_baseline(baseline.parent)
    accepted.check(params)
    dataset = params.cells[cell].dataset
    ours = (dataset, of.name, stored(of.epsilon))
    rows = {  # a cell under anonymity may have rows of its attackers beside them
        row.attack: measured
        for row, measured in accepted.measured.items()
        if row[:3] == ours and row.attack in params.attacks
    }
    if not rows:
        raise UserError(f"{baseline} has no row of {of.name} on {dataset} at this epsilon; accept one that has")
    trials, _ = trial_set(params, dataset)
    if any(measured.trial_set != trials for measured in rows.values()):
        raise UserError(
            f"{baseline} is about other texts or trials of {dataset}; audit, then accept what is measured now "
            "(epsilometer accept)"
        )
    return {attack: measured.estimate for attack, measured in rows.items()}
