"""`epsilometer gate` and `schema`: whether a mechanism keeps its limits, as an exit code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.asking import LimitOptions, columns
from epsilometer.cli.options import (
    EndpointOptions,
    MechanismName,
    PerText,
    Program,
    Public,
    Rewriting,
    Seed,
    Settings,
    TextFile,
    TextOptions,
    Workers,
    told_if_dry,
    writable,
)
from epsilometer.cli.output import tell
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.auditing.estimation.successes import Estimate
    from epsilometer.auditing.limits.accepted import Accepted
    from epsilometer.auditing.subject import Subject
    from epsilometer.doors.gate import Rules


@dataclass(frozen=True)
class Texts(Rewriting):
    """A mechanism, program or service on the texts of a file, and by which attacks it is judged."""

    file: TextFile = None
    mechanism: MechanismName = None
    command: Program = None
    workers: Workers = 1
    attacks: Annotated[str | None, typer.Option(help="Attacks, separated by commas.")] = None
    settings: Settings = field(default_factory=list)
    public: Public = None
    service: EndpointOptions = field(default_factory=EndpointOptions)
    seed: Seed = 0
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Below 0 distant, above 0 similar candidates, 0: uniform. By default that of --baseline; without one "
            "-10000 where an attack embeds, else 0."
        ),
    ] = None
    reading: TextOptions = field(default_factory=TextOptions)

    def check(self, cell: str | None) -> None:
        """Refuse two sources, or none, and what a cell would leave out."""
        self.check_source(cell, "--cell")
        if cell is not None and (self.file or self.attacks or self.settings or self.public):
            raise UserError(
                "--cell brings its texts, attacks and settings; leave out FILE, --attacks, --set, --public", "EPS-U040"
            )
        if cell is not None and self.temperature is not None:
            raise UserError("--cell draws its trials as params.yaml says; leave out --temperature", "EPS-U041")
        self.check_needs()
        self.reading.files.check(self.file)
        if cell is None and self.file is None:
            raise UserError("give a FILE of texts (only --cell needs none)", "EPS-U042")

    def subject(self, epsilon: float | None, texts: pl.DataFrame, accepted: Accepted | None = None) -> Subject:
        """Return the subject of a gate on these texts, by the attacks and design that were accepted, if any."""
        from epsilometer.auditing.subject import subject, temperature_of
        from epsilometer.auditing.trials.design import Design

        named = None if self.attacks is None else self.attacks.split(",")
        rewriter, settings = self.rewriter, self.chosen
        attacks = named if accepted is None else accepted.settings(named)
        if accepted is not None:
            design = accepted.design(self.seed)
        else:
            design = Design(temperature=temperature_of(named), seed=self.seed)
        if self.temperature is not None:
            design = replace(design, temperature=self.temperature)
        return subject(texts, rewriter, epsilon, attacks, settings=settings, design=design)


@dataclass(frozen=True)
class GateRules:
    """The baseline's increase that is noticed, and how many rewrites may be spent."""

    max_increase: Annotated[
        float,
        typer.Option(
            help="The increase over the baseline, in nats, that must not go unnoticed; up to half of it is allowed."
        ),
    ] = 0.3
    budget: Annotated[int, typer.Option(help="Maximum number of rewrites; with --accept, their number.")] = 20_000
    max_missing: Annotated[
        float,
        typer.Option(
            help="The largest share of a service's answers that may be withheld, truncated or empty; more are an "
            "error, and with any of them nothing passes."
        ),
    ] = 0.01

    def rules(self, limits: LimitOptions, baseline: Path | None) -> Rules:
        """Return the rules of a decision, checked."""
        from epsilometer.doors.gate import Rules

        if self.max_increase != GateRules.max_increase and baseline is None:
            raise UserError("--max-increase is over what was accepted; give --baseline, or leave it out", "EPS-U043")
        return Rules(limits.limits, self.max_increase, self.budget, max_missing=self.max_missing)


@dataclass(frozen=True)
class Written:
    """Where the decision is written."""

    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write JSON (`epsilometer schema`).", callback=writable)
    ] = None
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown, for a pull request.", callback=writable)] = None
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.", callback=writable)] = None
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF.", callback=writable)] = None
    html: Annotated[Path | None, typer.Option(help="Write a page.", callback=writable)] = None


def gate(
    texts: Texts,
    limits: LimitOptions,
    spending: GateRules,
    written: Written,
    out: PerText,
    cell: Annotated[str | None, typer.Option(help="Cell of params.yaml, which brings its texts.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget. Omit for a mechanism without one.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="Accepted results: a file written by --accept; with --cell, the folder baseline."),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Measure and write --baseline, without a verdict.")] = False,
) -> None:
    """Decide whether a mechanism keeps limits on the figures of any questions, on as few fresh trials as that takes.

    For instance `--limit which_text=1 --limit tail=.01`, or `--limit linking=1 --with linking.author=COLUMN`. Prints
    the verdict, a line for each kind of limit, how often such a verdict is wrong, and a line for each fault of the
    rewrites, such as answers that a service withheld. Ends with 0 (passed), 1 (beyond a limit), 3 (open) or 2 (an
    error: of the input, or of what is judged).
    """
    from epsilometer.auditing.limits.accepted import read
    from epsilometer.doors.gate import gate as judge
    from epsilometer.report import gate as formats

    if accept:
        judging = replace(spending, budget=GateRules.budget, max_missing=GateRules.max_missing)
        _check_accepting(judging, limits)
        _accept(texts, epsilon, spending, baseline=None if cell else baseline)
        return
    forms = (written.json_file, written.markdown, written.junit, written.sarif, written.html)
    files = formats.Files(*forms, finding=texts.mechanism or "params.yaml")
    with told_if_dry(), files.of(texts.label or cell or "nothing", epsilon):
        texts.check(cell)
        out.check()
        rules = spending.rules(limits, baseline)  # refused before any model loads
        with withheld():
            if cell is None:
                accepted = None if baseline is None else read(baseline)
                if accepted is not None:
                    accepted.check_installed(str(baseline))
                table = texts.reading.table(str(texts.file), columns([question for question, _ in rules.limits]))
                of = texts.subject(epsilon, table, accepted)
                estimates = None if accepted is None else accepted.estimates(of, str(baseline))
            else:
                of = _of_cell(cell, epsilon)
                estimates = _accepted_cell(of, baseline, cell)
            verdict = judge(of, rules, estimates)
    decision = formats.Decision.of(of, rules.errors, verdict)
    files.write(decision)
    out.write_verdict(verdict, of)
    tell(*formats.lines(decision))
    raise typer.Exit(decision.exit_code)


def schema(of: Annotated[str, typer.Argument(help="gate or dossier.")] = "gate") -> None:
    """Print the JSON schema of what `epsilometer gate --json`, or `epsilometer dossier`, writes."""
    import json

    if of == "gate":
        from epsilometer.report.gate import schema
    elif of == "dossier":
        from epsilometer.studies.texts.report.dossier import schema
    else:
        raise UserError(f"there are schemas of gate and of dossier, got {of!r}", "EPS-U044")
    tell(json.dumps(schema(), indent=1))


def _check_accepting(spending: GateRules, limits: LimitOptions) -> None:
    """Refuse what is for judging beside --accept, which measures."""
    beside = {
        "--max-increase": spending.max_increase != GateRules.max_increase,
        "--limit": limits.limit,
        "--with": limits.with_settings,
    }
    idle = [name for name, value in beside.items() if value]
    if idle:
        raise UserError(f"--accept measures and judges nothing; leave out {', '.join(idle)}", "EPS-U045")


def _accept(texts: Texts, epsilon: float | None, spending: GateRules, *, baseline: Path | None) -> None:
    from epsilometer.auditing.limits.accepted import write
    from epsilometer.doors.gate import measure

    if baseline is None:
        raise UserError(
            "--accept writes --baseline, of a mechanism or program; a project's is `epsilometer accept`", "EPS-U046"
        )
    texts.check(None)
    with told_if_dry(), withheld():
        of = texts.subject(epsilon, texts.reading.table(str(texts.file)))
        write(measure(of, spending.budget, spending.max_missing), baseline)
    note(f"accepted as {baseline}; judge later runs by the same command without --accept")


def _of_cell(cell: str, epsilon: float | None) -> Subject:
    from epsilometer.pipeline.params import read
    from epsilometer.studies.texts.gating import subject_of_cell

    return subject_of_cell(read(), cell, epsilon)


def _accepted_cell(of: Subject, baseline: Path | None, cell: str) -> dict[str, Estimate] | None:
    if baseline is None:
        return None
    from epsilometer.pipeline.params import read
    from epsilometer.studies.texts.gating import accepted

    return accepted(read(), of, cell, baseline)
