"""`epsilometer gate` and `schema`: whether a mechanism keeps its limits, as an exit code."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilometer.cli.options import (
    EndpointOptions,
    Group,
    Identifiers,
    Kinds,
    LinkingOptions,
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
    kinds_of,
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
    from epsilometer.auditing.gate import Rules
    from epsilometer.auditing.limits.accepted import Accepted
    from epsilometer.auditing.limits.subject import Counted, Subject


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
            raise UserError("--cell brings its texts, attacks and settings; leave out FILE, --attacks, --set, --public")
        if cell is not None and self.temperature is not None:
            raise UserError("--cell draws its trials as params.yaml says; leave out --temperature")
        self.check_needs()
        self.reading.files.check(self.file)
        if cell is None and self.file is None:
            raise UserError("give a FILE of texts (only --cell needs none)")

    def subject(self, epsilon: float | None, texts: pl.DataFrame, accepted: Accepted | None = None) -> Subject:
        """Return the subject of a gate on these texts, by the attacks and design that were accepted, if any."""
        from epsilometer.auditing.gate import subject, temperature_of
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
class GateLimits:
    """What a mechanism may leak, and how many rewrites may be spent on it."""

    max_loss: Annotated[float | None, typer.Option(help="The largest loss allowed, in nats.")] = None
    max_delta_at_4: Annotated[
        float | None, typer.Option("--max-delta-at-4", help="The largest delta at 4 nats by sure guesses: the tail.")
    ] = None
    max_increase: Annotated[
        float,
        typer.Option(
            help="The increase over the baseline, in nats, that must not go unnoticed; up to half of it is allowed."
        ),
    ] = 0.3
    max_identifiers: Annotated[
        float | None, typer.Option(help="The largest share of identifiers of each kind that may survive.")
    ] = None
    identifiers: Identifiers = None
    count_partly: Annotated[
        bool,
        typer.Option(
            "--count-partly",
            help="With --max-identifiers: count those that survive in part, too, as a surname or the last four digits.",
        ),
    ] = False
    max_attribute_loss: Annotated[
        float | None, typer.Option(help="The largest loss, in nats, by attackers who infer --attribute from rewrites.")
    ] = None
    max_linking_loss: Annotated[
        float | None,
        typer.Option(help="The largest loss, in nats, by linking people to rewrites (--facts, --author)."),
    ] = None
    budget: Annotated[int, typer.Option(help="Most rewrites; with --accept how many.")] = 20_000
    max_missing: Annotated[
        float,
        typer.Option(
            help="The largest share of a service's answers that may be withheld, truncated or empty; more are an "
            "error, and with any of them nothing passes."
        ),
    ] = 0.01

    def check(self, baseline: Path | None) -> None:
        """Refuse an increase over nothing."""
        if self.max_increase != GateLimits.max_increase and baseline is None:
            raise UserError("--max-increase is over what was accepted; give --baseline, or leave it out")

    @property
    def rules(self) -> Rules:
        """The same, checked."""
        from epsilometer.auditing.gate import Rules

        if self.identifiers is not None and self.max_identifiers is None:
            raise UserError("--identifiers says which kinds --max-identifiers limits; give both")
        if self.count_partly and self.max_identifiers is None:
            raise UserError("--count-partly widens --max-identifiers; give both")
        own = asdict(self) | {"identifiers": kinds_of(self.identifiers)}
        return Rules(**{field.name: own[field.name] for field in fields(Rules) if field.name in own})


@dataclass(frozen=True)
class Inference:
    """An attribute that rewrites may give away, and who infers it."""

    attribute: Annotated[
        str | None,
        typer.Option(
            help="A column of FILE that nobody should infer, or columns jointly (a,b): with --max-attribute-loss."
        ),
    ] = None
    group: Group = None
    kinds: Kinds = None

    def check(self, limits: GateLimits, linking: LinkingOptions, cell: str | None) -> None:
        """Refuse what has no limit, a limit of nothing, and labels of a cell."""
        if (self.attribute is None) != (limits.max_attribute_loss is None):
            raise UserError("--attribute is limited by --max-attribute-loss; give both, or neither")
        if self.attribute is None and (self.group or self.kinds):
            raise UserError("--group and --kinds are for --attribute; give it, or leave them out")
        if linking.wanted != (limits.max_linking_loss is not None):
            raise UserError("--facts and --author are limited by --max-linking-loss; give one of them and the limit")
        if cell is not None and (self.attribute or linking.wanted):
            raise UserError("--attribute, --facts and --author are columns of a FILE; leave them out with --cell")

    def columns(self, linking: LinkingOptions) -> list[str]:
        """The columns that are read beside the texts."""
        names = (self.attribute, self.group, *linking.columns)
        return list(dict.fromkeys(name for name in names if name is not None))

    def counted(self, table: pl.DataFrame, limits: GateLimits, linking: LinkingOptions) -> list[Counted]:
        """What is limited beside the attacks and identifiers. table: the texts, with these columns."""
        counted: list[Counted] = []
        if self.attribute is not None and limits.max_attribute_loss is not None:
            from epsilometer.studies.anonymity.gating import AttributeLimit, kinds_named

            limit, kinds = limits.max_attribute_loss, kinds_named(self.kinds)
            counted.append(AttributeLimit(table, self.attribute, limit, group=self.group, kinds=kinds))
        if limits.max_linking_loss is not None:
            from epsilometer.auditing.limits.linking import Linking
            from epsilometer.auditing.linking.loss import chosen_attacks

            attacks, people = chosen_attacks(linking.names), linking.people(table)
            counted.append(Linking(people, attacks, limits.max_linking_loss, linking.among))
        return counted


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
    limits: GateLimits,
    inference: Inference,
    linking: LinkingOptions,
    written: Written,
    out: PerText,
    cell: Annotated[str | None, typer.Option(help="A cell of params.yaml, on its own texts.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The privacy budget; none for a mechanism without one.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="What was accepted: a file that --accept wrote; with --cell the folder baseline."),
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Measure, and write --baseline; nothing is judged.")] = False,
) -> None:
    """Decide whether a mechanism keeps its limits, on as few fresh trials as that takes.

    Prints the verdict, a line for each kind of limit, how often such a verdict is wrong, and a line for each fault of
    the rewrites, such as answers that a service withheld. Ends with 0 (passed), 1 (beyond a limit), 3 (open)
    or 2 (an error: of the input, or of what is judged).
    """
    from epsilometer.auditing.gate import gate as judge
    from epsilometer.auditing.limits.accepted import read
    from epsilometer.report import gate as formats

    if accept:
        judging = replace(limits, budget=GateLimits.budget, max_missing=GateLimits.max_missing)
        _check_accepting(judging, inference, linking)
        _accept(texts, epsilon, limits, baseline=None if cell else baseline)
        return
    forms = (written.json_file, written.markdown, written.junit, written.sarif, written.html)
    files = formats.Files(*forms, finding=texts.mechanism or "params.yaml")
    with told_if_dry(), files.of(texts.label or cell or "nothing", epsilon):
        texts.check(cell)
        inference.check(limits, linking, cell)
        limits.check(baseline)
        out.check()
        rules = limits.rules  # refused before any model loads
        with withheld():
            if cell is None:
                accepted = None if baseline is None else read(baseline)
                if accepted is not None:
                    accepted.check_installed(str(baseline))
                table = texts.reading.table(str(texts.file), inference.columns(linking))
                of, counted = texts.subject(epsilon, table, accepted), inference.counted(table, limits, linking)
                estimates = None if accepted is None else accepted.estimates(of, str(baseline))
            else:
                of, counted = _of_cell(cell, epsilon), []
                estimates = _accepted_cell(of, baseline, cell)
            verdict = judge(of, rules, estimates, counted)
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
        raise UserError(f"there are schemas of gate and of dossier, got {of!r}")
    tell(json.dumps(schema(), indent=1))


def _check_accepting(*judging: GateLimits | Inference | LinkingOptions) -> None:
    """Refuse what is for judging beside --accept, which measures."""
    idle = [
        f"--{part.name.replace('_', '-')}"
        for options in judging
        for part in fields(options)
        if getattr(options, part.name) != part.default
    ]
    if idle:
        raise UserError(f"--accept measures and judges nothing; leave out {', '.join(idle)}")


def _accept(texts: Texts, epsilon: float | None, limits: GateLimits, *, baseline: Path | None) -> None:
    from epsilometer.auditing.gate import measure
    from epsilometer.auditing.limits.accepted import write

    if baseline is None:
        raise UserError("--accept writes --baseline, of a mechanism or program; a project's is `epsilometer accept`")
    texts.check(None)
    with told_if_dry(), withheld():
        of = texts.subject(epsilon, texts.reading.table(str(texts.file)))
        write(measure(of, limits.budget, limits.max_missing), baseline)
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
