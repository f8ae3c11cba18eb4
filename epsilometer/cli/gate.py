"""`epsilometer gate` decides whether a mechanism keeps its limits, and returns an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from epsilometer.cli.asking import LimitOptions, columns, of_settings, settings_by_question
from epsilometer.cli.options import (
    Accept,
    Attacks,
    Baseline,
    Epsilon,
    PerText,
    Rewriting,
    Rewritings,
    Seed,
    Temperature,
    TextOptions,
    schema_option,
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
    from epsilometer.report.gate import Files


@dataclass(frozen=True)
class Texts(Rewriting):
    """A mechanism, program or service on the texts of a file, and the attacks that judge it."""

    attacks: Attacks = None
    seed: Seed = 0
    temperature: Temperature = None
    reading: TextOptions = field(default_factory=TextOptions)

    def check(self, cell: str | None) -> None:
        """Refuse two sources, no source, and options that have no effect with a cell."""
        self.check_source(cell, "--cell")
        if cell is not None and (self.file or self.attacks or self.settings or self.public):
            raise UserError(
                "--cell has texts, attacks and settings of its own; leave out FILE, --attacks, --set, --public",
                "EPS-U040",
            )
        if cell is not None and self.temperature is not None:
            raise UserError("--cell takes its temperature from params.yaml; leave out --temperature", "EPS-U041")
        self.check_needs()
        self.reading.files.check(self.file)
        if cell is None and self.file is None:
            raise UserError("give a FILE of texts (only --cell needs none)", "EPS-U042")

    def subject(self, epsilon: float | None, texts: pl.DataFrame, accepted: Accepted | None = None) -> Subject:
        """Return the subject of a gate on these texts, with the attacks and design of an accepted baseline, if any."""
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
    """Options: the smallest increase over the baseline to notice, and limits on rewrites and on missing answers."""

    max_increase: Annotated[
        float,
        typer.Option(
            help="Increase over the baseline, in nats, that the gate must detect; half of this increase is allowed."
        ),
    ] = 0.3
    budget: Rewritings = 20_000
    max_missing: Annotated[
        float,
        typer.Option(
            help="The largest share of a service's answers that may be withheld, truncated or empty; a larger share "
            "is an error. With any such answer the gate does not pass."
        ),
    ] = 0.01

    def rules(self, limits: LimitOptions, baseline: Path | None) -> Rules:
        """Return the gate's rules. Raises UserError for invalid options."""
        from epsilometer.doors.gate import Rules

        if self.max_increase != GateRules.max_increase and baseline is None:
            raise UserError("--max-increase needs a baseline; give --baseline, or leave out --max-increase", "EPS-U043")
        return Rules(limits.limits, self.max_increase, self.budget, max_missing=self.max_missing)


_FORMATS = ("json", "markdown", "junit", "sarif", "html")


def _reports(entries: list[str]) -> list[tuple[str, Path]]:
    """Return the formats and files of reports. Raises UserError, before any work, for a file that cannot be written."""
    files: dict[str, Path] = {}
    for entry in entries:
        form, _, path = entry.partition("=")
        if form not in _FORMATS or not path:
            raise UserError(
                f"--report takes FORMAT=FILE, where FORMAT is one of {', '.join(_FORMATS)}, got {entry!r}", "EPS-U069"
            )
        if form in files:
            raise UserError(f"--report names a file as {form} twice; give one file of each format", "EPS-U070")
        files[form] = Path(path)
        writable(files[form])
    return list(files.items())


def _files(paths: Mapping[str, Path], finding: str) -> Files:
    """Return the report files by format. finding: the file to which SARIF attaches a finding."""
    from epsilometer.report.gate import Files

    json, markdown, junit, sarif, html = (paths.get(form) for form in _FORMATS)
    return Files(json=json, markdown=markdown, junit=junit, sarif=sarif, html=html, finding=finding)


def _schema() -> dict[str, Any]:
    from epsilometer.report.gate import schema

    return schema()


Reports = Annotated[
    list[str],
    typer.Option(
        "--report",
        metavar="FORMAT=FILE",
        callback=_reports,
        help="Write the decision as json (--schema), markdown (for a pull request), junit, sarif or html; repeatable.",
    ),
]


def gate(
    texts: Texts,
    limits: LimitOptions,
    spending: GateRules,
    out: PerText,
    cell: Annotated[str | None, typer.Option(help="Cell of params.yaml, with its texts.")] = None,
    *,
    epsilon: Epsilon = None,
    baseline: Baseline = None,
    accept: Accept = False,
    report: Reports = [],  # noqa: B006
    suggest: Annotated[
        Path | None,
        typer.Option(help="Measure today's leaks, propose limits, and write a workflow (.yml) that checks them."),
    ] = None,
    schema: Annotated[bool, schema_option(_schema)] = False,
) -> None:
    """Decide whether a mechanism keeps its limits.

    Limits may be set on the figures of any questions: `--limit which_text=1 --limit tail=.01`, or `--limit linking=1
    --with linking.author=COLUMN`. The gate draws fresh trials until they decide. Prints the verdict, a line for each
    kind of limit, the probability of a wrong verdict, and a line for each fault of the rewrites, such as answers that a
    service withheld. The exit code is 0 (passed), 1 (beyond a limit), 3 (open) or 2 (an error of the input, or of the
    mechanism).

    With --cell, --baseline is the project's folder `baseline`. With --accept, --budget is the number of rewrites.
    --temperature defaults to that of --baseline. Without a baseline, it is -10000 if an attack embeds texts, else 0.

    --suggest measures surviving identifiers; `--with attribute.attribute=COLUMN` and `--with linking.author=COLUMN` add
    those questions. The exit code is 3 if no limit can be proposed.
    """
    from epsilometer.doors.gate import exit_code
    from epsilometer.doors.gate import gate as judge
    from epsilometer.report import gate as formats

    if suggest is not None:
        judged = {"--limit": limits.limit, "--baseline": baseline, "--accept": accept, "--cell": cell}
        _suggest(texts, epsilon, limits, suggest, judged=judged | {"--report": report, "--out": out.out})
        return
    if accept:
        _check_accepting(spending, limits)
        _accept(texts, epsilon, spending, baseline=None if cell else baseline)
        return
    files = _files(dict(cast("list[tuple[str, Path]]", report)), texts.mechanism or "params.yaml")
    with told_if_dry(), files.of(texts.label or cell or "nothing", epsilon):
        texts.check(cell)
        out.check()
        rules = spending.rules(limits, baseline)  # raises before any model loads
        with withheld():
            if cell is None:
                of, estimates = _of_file(texts, epsilon, rules, baseline)
            else:
                of = _of_cell(cell, epsilon)
                estimates = _accepted_cell(of, baseline, cell)
            verdict = judge(of, rules, estimates)
    decision = formats.Decision.of(of, rules.errors, verdict)
    files.write(decision)
    out.write_verdict(verdict, of)
    tell(*formats.lines(decision))
    raise typer.Exit(exit_code(verdict))


def _suggest(
    texts: Texts, epsilon: float | None, limits: LimitOptions, path: Path, *, judged: Mapping[str, object]
) -> None:
    """Print proposed limits, and write the workflow with them. Raises UserError before any work for bad options.

    judged: the options that have no effect on a suggestion, by name.
    """
    from epsilometer.core.atomic import write_text
    from epsilometer.doors.suggest import suggest, workflow

    if idle := [name for name, value in judged.items() if value]:
        raise UserError(f"--suggest proposes limits and does not judge; leave out {', '.join(idle)}", "EPS-U094")
    if path.suffix not in (".yml", ".yaml"):
        raise UserError(f"--suggest writes a workflow, a .yml file, got {path.name}", "EPS-U095")
    texts.check(None)
    if texts.service.endpoint is not None or texts.reading.files.entries or len(texts.reading.text) > 1:
        raise UserError(
            "--suggest takes a mechanism or a program, and texts in one column in the usual layout, as the action does",
            "EPS-U096",
        )
    named = {entry.partition(".")[0] for entry in limits.with_settings}
    settings = settings_by_question(["identifiers", *sorted(named - {"identifiers"})], limits.with_settings)
    asked_of = {name: (of_settings(name, of), of) for name, of in settings.items()}
    writable(path)
    with told_if_dry(), withheld():
        table = texts.reading.table(str(texts.file), columns([question for question, _ in asked_of.values()]))
        proposals = suggest(texts.subject(epsilon, table), asked_of)
    tell(*map(str, proposals))
    if not any(each.limit is not None for each in proposals):
        raise typer.Exit(3)
    (text,) = texts.reading.text
    inputs = {
        "texts": str(texts.file),
        "text": "" if text == "text" else text,
        "mechanism": texts.mechanism or "",
        "command": texts.command or "",
        "epsilon": "" if epsilon is None else f"{epsilon:g}",
        "set": "\n".join(texts.settings),
    }
    write_text(workflow({key: value for key, value in inputs.items() if value}, proposals), path)
    tell("", path.resolve())


def _check_accepting(spending: GateRules, limits: LimitOptions) -> None:
    """Raise UserError for options that affect only a verdict, since --accept only measures."""
    beside = {
        "--max-increase": spending.max_increase != GateRules.max_increase,
        "--limit": limits.limit,
        "--with": limits.with_settings,
    }
    idle = [name for name, value in beside.items() if value]
    if idle:
        raise UserError(f"--accept only measures and does not judge; leave out {', '.join(idle)}", "EPS-U045")


def _accept(texts: Texts, epsilon: float | None, spending: GateRules, *, baseline: Path | None) -> None:
    from epsilometer.auditing.limits.accepted import write
    from epsilometer.doors.gate import measure

    if baseline is None:
        raise UserError(
            "--accept needs --baseline, the file to write; in a project use `epsilometer results accept`",
            "EPS-U046",
        )
    texts.check(None)
    with told_if_dry(), withheld():
        of = texts.subject(epsilon, texts.reading.table(str(texts.file)))
        write(measure(of, spending.budget, spending.max_missing), baseline)
    note(f"accepted as {baseline}; judge later runs by the same command without --accept")


def _of_file(
    texts: Texts, epsilon: float | None, rules: Rules, baseline: Path | None
) -> tuple[Subject, dict[str, Estimate] | None]:
    """Return the subject of a gate on a file, and the accepted baseline's estimates, or None without a baseline."""
    from epsilometer.auditing.limits.accepted import read

    accepted = None if baseline is None else read(baseline)
    if accepted is not None:
        accepted.check_installed(str(baseline))
    table = texts.reading.table(str(texts.file), columns([question for question, _ in rules.limits]))
    of = texts.subject(epsilon, table, accepted)
    return of, None if accepted is None else accepted.estimates(of, str(baseline))


def _of_cell(cell: str, epsilon: float | None) -> Subject:
    from epsilometer.cells.gating import subject_of_cell
    from epsilometer.pipeline.params import read

    return subject_of_cell(read(), cell, epsilon)


def _accepted_cell(of: Subject, baseline: Path | None, cell: str) -> dict[str, Estimate] | None:
    if baseline is None:
        return None
    from epsilometer.cells.gating import accepted
    from epsilometer.pipeline.params import read

    return accepted(read(), of, cell, baseline)
