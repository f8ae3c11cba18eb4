"""`epsilometer audit`: the losses that attacks show, of a mechanism, a program, or recorded rewrites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epsilometer.cli.attribute import RecordedLabels, audit_attribute
from epsilometer.cli.failures import Probing, audit_failures
from epsilometer.cli.options import (
    Columns,
    EndpointOptions,
    Epsilons,
    Identifiers,
    Json,
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
    numbers,
    read_settings,
    shipped,
    told_if_dry,
)
from epsilometer.cli.output import show
from epsilometer.core.errors import UserError
from epsilometer.runtime.withholding import withheld

if TYPE_CHECKING:
    import polars as pl

    from epsilometer.auditing.trials.design import Design


_LINKED = ("epsilon", "attack", "rewrites", "sets", "success_rate", "low", "high", "loss", "upper", "ceiling")


@dataclass(frozen=True)
class RewriteSource(Rewriting):
    """Where rewrites come from: a mechanism, program or service that is given a file's texts, or a file of rewrites."""

    file: TextFile = None
    mechanism: MechanismName = None
    command: Program = None
    workers: Workers = 1
    rewrites: Annotated[
        Path | None, typer.Option(help="Recorded rewrites: columns original, rewrite and, if any, epsilon.")
    ] = None
    epsilons: Epsilons = None
    settings: Settings = field(default_factory=list)
    public: Public = None
    service: EndpointOptions = field(default_factory=EndpointOptions)

    @property
    def budgets(self) -> list[float] | None:
        """The epsilons; None where the mechanism says them."""
        return numbers(self.epsilons, "--epsilons must be numbers separated by commas")

    def check(self, linked: bool = False) -> None:
        """Refuse options of which one excludes or needs another. linked: whether FILE says what is known of whom."""
        self.check_source(self.rewrites, "--rewrites")
        if (self.rewrites is None or linked) and self.file is None:
            raise UserError("give a FILE of texts (only --rewrites needs none, without --facts and --author)")
        if self.rewrites is not None and ((self.file and not linked) or self.epsilons):
            raise UserError("leave out FILE and --epsilons: --rewrites brings its own")
        self.check_needs()


@dataclass(frozen=True)
class Game:
    """What is guessed, how often, and among which texts."""

    units: Annotated[
        bool,
        typer.Option("--units", help="Guess every word of each rewrite: the loss for one word, from few rewrites."),
    ] = False
    worst: Annotated[
        bool,
        typer.Option("--worst", help="Search the pair of texts at which most is lost, then prove it on fresh trials."),
    ] = False
    trials: Annotated[
        int | None,
        typer.Option(
            help="2000, or all that recorded rewrites allow; with --units 100 rewrites; with --worst 4000, half "
            "of them for the search; with --identifiers 59 texts a kind and shape that is planted, or 500 texts a "
            "kind that is recorded; with --facts or --author 100 sets."
        ),
    ] = None
    candidates: Annotated[str, typer.Option(help="Size k of a candidate set, or all: every text is a candidate.")] = "2"
    temperature: Annotated[float, typer.Option(help="Below 0 distant, above 0 similar candidates.")] = -10_000
    alpha: Annotated[float, typer.Option(help="Error of each interval.")] = 0.01
    identifiers: Identifiers = None
    fpr: Annotated[
        float | None, typer.Option(help="Show how often the source is affirmed at this false positive rate (tpr).")
    ] = None
    prior: Annotated[
        str | None, typer.Option(help="How likely the source is to be each candidate: .7,.3; alike by default.")
    ] = None
    seed: Seed = 0

    def check(self, source: RewriteSource, linked: bool) -> None:
        """Refuse two games at once, and one that cannot be played with this source or with a prior."""
        _size(self.candidates)
        source.check(linked)
        if self.units + self.worst + (self.identifiers is not None) > 1:
            raise UserError("--units, --worst and --identifiers are audits of their own; give one of them")
        if self.identifiers is not None and (source.rewrites is not None or self.prior or self.fpr):
            raise UserError(
                "--identifiers counts what survives in rewrites of texts that it chooses, and guesses nothing; give "
                "--mechanism or --command, and leave out --rewrites, --prior and --fpr"
            )
        if self.prior is not None and (self.units or self.worst):
            raise UserError("--units and --worst flip fair coins; leave out --prior")
        if source.rewrites is not None and (self.units or self.worst):
            raise UserError(
                "--units and --worst choose what is rewritten; give --mechanism or --command, not --rewrites"
            )

    @property
    def design(self) -> Design:
        """Of its trials."""
        from epsilometer.auditing.trials.design import STANDARD, Design

        size = _size(self.candidates)
        shares = numbers(self.prior, "--prior must be numbers")
        fpr = STANDARD.fpr if self.fpr is None else self.fpr
        prior = None if shares is None else tuple(shares)
        return Design(size, self.temperature, self.alpha, self.seed, fpr=fpr, prior=prior)

    @property
    def measure(self) -> Callable[..., pl.DataFrame]:
        """The audit that is asked for, with this number of trials or its own."""
        from epsilometer.auditing.text_audit import audit as audit_texts
        from epsilometer.questions.which_unit import audit_units
        from epsilometer.questions.worst_pair import audit_worst

        measure = audit_units if self.units else audit_worst if self.worst else audit_texts
        return measure if self.trials is None else partial(measure, trials=self.trials)


@dataclass(frozen=True)
class Guessing:
    """Who guesses, and what is printed of it."""

    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"Attacks, separated by commas: shipped ones ({shipped('attacks/identification')}) and paths of "
            ".py files. All that need no large model by default.",
        ),
    ] = None
    attack_settings: Annotated[
        list[str], typer.Option("--attack-set", metavar="ATTACK.KEY=VALUE", help="A setting of an attack.")
    ] = field(default_factory=list)
    columns: Columns = None

    @property
    def wanted(self) -> bool:
        """Whether anything of it is said, which other audits do without."""
        return bool(self.attacks or self.attack_settings or self.columns)

    @property
    def chosen(self) -> dict[str, dict[str, Any]] | None:
        """The attacks and their settings as `epsilometer.audit` takes them; None for its default."""
        if self.attacks is None and not self.attack_settings:
            return None
        if self.attacks is None:
            raise UserError("--attack-set needs --attacks, which names the attacks to run")
        chosen: dict[str, dict[str, Any]] = {}
        for name in self.attacks.split(","):
            if name in chosen:
                raise UserError(f"--attacks names {name!r} twice")
            chosen[name] = {}
        for key, value in read_settings(self.attack_settings, "--attack-set").items():
            attack, dot, setting = key.rpartition(".")
            if not dot or attack not in chosen:
                raise UserError(
                    f"--attack-set takes ATTACK.KEY=VALUE for one of {', '.join(chosen)}, got {key!r}; name the attack "
                    "in --attacks too"
                )
            chosen[attack][setting] = value
        return chosen


def audit(
    source: RewriteSource,
    game: Game,
    labels: RecordedLabels,
    linking: LinkingOptions,
    out: PerText,
    reading: TextOptions,
    probing: Probing,
    guessing: Guessing,
    as_json: Json = False,
) -> None:
    """Measure a mechanism's empirical privacy loss.

    Prints one row for each epsilon and attack: how often the attack was right (success_rate), the loss in nats that
    this proves, the upper end of its interval, and the verdict on the claim (overall). A loss marked ≥ is the most that
    so many trials can prove (ceiling).
    With --columns all, or --json, all that was measured: also the loss by averaged posteriors where the law is known
    (posterior_loss), the loss between texts of equally many words (equal_loss), and the largest pure loss that the
    surest guesses prove (worst_output).

    Some options ask for another audit, with rows of its own.
    --units: of the words, each chosen by a coin, how many were guessed, how many of these right, the loss for one word
    that this proves, and how many the claim covers (covered).
    --worst: the worst of some pairs of texts, and the worst pair that differ in one word; texts and words are numbered
    from 0.
    --identifiers: in how many texts an identifier of each kind survived, with its interval, and how many of the masked
    runs of words touched one (precision).
    --facts or --author: how many people were linked to their own rewrite among those of a set, by what is known of
    them, and the loss that this proves.
    --probe-failures: how often planted identifiers showed at each place (replies, streams, errors, ...).
    --attribute: how many rewrites of labelled texts deceive a classifier of the attribute and not one of the label to
    keep (rs_all, of the texts that both classify right), and what attackers who learned from rewrites infer.
    """
    out.check()
    reading.files.check(source.file, source.rewrites, labels.labelled)
    others = (labels.attribute, linking.wanted, game.units, game.worst, game.identifiers, probing.probe_failures)
    if out.out and (any(others) or source.rewrites):
        raise UserError(
            "--out is written of an audit of texts by attacks, and by the gate; leave it out, or leave out "
            "--attribute, --facts, --author, --units, --worst, --identifiers, --probe-failures and --rewrites"
        )
    if labels.attribute is not None:
        _check_alone(source, game, others=guessing.wanted)
        files = (source.file, source.rewrites)
        return audit_attribute(labels, *files, reading, alpha=game.alpha, seed=game.seed, as_json=as_json)
    labels.check_unused()
    if probing.probe_failures:
        _check_probe(source, game, others=guessing.wanted or linking.wanted)
        of = (source.service, source.settings, game.identifiers)
        return audit_failures(probing, *of, seed=game.seed, alpha=game.alpha, as_json=as_json)
    probing.check_unused()
    game.check(source, linking.wanted)
    if linking.wanted:
        _check_linking(game, others=guessing.wanted)
        return _linked(source, game, linking, reading, as_json=as_json)
    if game.identifiers is not None:
        if guessing.wanted:
            raise UserError("--identifiers runs no attacks and has columns of its own; leave out --attacks, --columns")
        return _survived(source, game, reading, as_json=as_json)
    return _attacked(source, game, guessing, out, reading=reading, as_json=as_json)


def _attacked(
    source: RewriteSource, game: Game, guessing: Guessing, out: PerText, *, reading: TextOptions, as_json: bool
) -> None:
    """Print a row an epsilon and attack: how often it was right, and what loss that proves."""
    from epsilometer.auditing.results.losses import Losses

    design, chosen, shown = game.design, guessing.chosen, _shown(guessing.columns, game)
    if source.rewrites is not None:
        from epsilometer.auditing.external import audit_recorded, recorded

        with withheld():
            losses = audit_recorded(recorded(source.rewrites, reading.files.layout), chosen, game.trials, design)
    else:
        budgets, measure = source.budgets, game.measure
        texts, settings, rewriter = reading.distinct(str(source.file)), source.chosen, source.rewriter
        with told_if_dry(), withheld():
            losses = measure(texts, rewriter, budgets, chosen, settings=settings, design=design)
        if out.out and isinstance(losses, Losses):
            out.write(losses.by_text, str(source.label), texts)
    if as_json:
        show(losses.to_dicts(), as_json, shown if guessing.columns else None)
    else:
        show([_named(row) for row in losses.iter_rows(named=True)], as_json, shown)


def _survived(source: RewriteSource, game: Game, reading: TextOptions, *, as_json: bool) -> None:
    """Print a row an epsilon, kind and shape of identifier: how many survived, and what else was masked."""
    from epsilometer.auditing.identifiers.surviving import surviving_identifiers

    texts, settings, rewriter = reading.table(str(source.file)), source.chosen, source.rewriter
    with told_if_dry(), withheld():
        table = surviving_identifiers(
            texts,
            rewriter,
            source.budgets,
            kinds_of(game.identifiers),
            trials=game.trials,
            settings=settings,
            design=game.design,
        )
    rows = table.to_dicts()
    show(
        rows,
        as_json,
        None if as_json else [name for name in table.columns if any(row[name] is not None for row in rows)],
    )


def _linked(source: RewriteSource, game: Game, linking: LinkingOptions, reading: TextOptions, *, as_json: bool) -> None:
    """Print a row an epsilon and attack: how many people were linked to their rewrites, and what loss that shows."""
    from epsilometer.auditing.external import recorded
    from epsilometer.auditing.linking.loss import LinkingDesign, linking_loss, recorded_linking_loss

    people = linking.people(reading.table(str(source.file), linking.columns))
    sets = LinkingDesign.sets if game.trials is None else game.trials
    design = LinkingDesign(linking.among, sets, game.alpha, game.seed)
    if source.rewrites is not None:
        rewrites = recorded(source.rewrites, reading.files.layout)
        with withheld():
            table = recorded_linking_loss(people, rewrites, linking.names, design)
    else:
        settings, rewriter = source.chosen, source.rewriter
        with told_if_dry(), withheld():
            table = linking_loss(people, rewriter, source.budgets, linking.names, settings=settings, design=design)
    rows = table.to_dicts()
    show(rows if as_json else [_named(row) for row in rows], as_json, None if as_json else _LINKED)


def _check_linking(game: Game, *, others: bool) -> None:
    """Refuse, beside facts, what is for other audits."""
    if game.units or game.worst or game.identifiers or game.fpr or game.prior or others:
        raise UserError(
            "--facts and --author draw sets of people, and have attacks of their own (--linkers) and columns of their "
            "own; leave out --units, --worst, --identifiers, --fpr, --prior, --attacks and --columns"
        )


def _check_alone(source: RewriteSource, game: Game, *, others: bool) -> None:
    """Refuse, beside an attribute, what is for other audits."""
    if (
        source.mechanism
        or source.command
        or source.service.endpoint
        or source.epsilons
        or game.units
        or game.worst
        or game.identifiers
    ):
        raise UserError("--attribute is for recorded rewrites; give --rewrites, which brings its own epsilons")
    if others or game.trials or game.fpr or game.prior or source.settings or source.public:
        raise UserError(
            "--attacks, --trials, --fpr, --prior, --set, --public, --attack-set and --columns have no effect with "
            "--attribute, which has attackers of its own (--kinds); leave them out"
        )


def _check_probe(source: RewriteSource, game: Game, *, others: bool) -> None:
    """Refuse, beside a probe of failures, what is for other audits."""
    if source.file or source.mechanism or source.command or source.rewrites or source.epsilons or source.public:
        raise UserError("--probe-failures sends planted texts to an --endpoint; leave out FILE and other sources")
    if others or game.units or game.worst or game.trials or game.fpr or game.prior:
        raise UserError(
            "--probe-failures guesses nothing; leave out --units, --worst, --trials, --fpr, --prior, --attacks and "
            "--columns"
        )


def _size(text: str) -> int | Literal["all"]:
    if text == "all":
        return "all"
    try:
        return int(text)
    except ValueError:
        raise UserError(f"--candidates must be a whole number, or all, got {text!r}") from None


def _shown(columns: str | None, game: Game) -> Sequence[str]:
    """The columns to print: those asked for, or what fits on a terminal."""
    from epsilometer.auditing.results.losses import SHORT, chosen
    from epsilometer.auditing.schemas import AUDIT, UNIT_LOSSES, WORST_PAIRS

    proved = ("loss", "ceiling", "worst_output", "claimed", "overall", "claim")
    pair = ("x", "other", "place", "other_place", "method", "attack", "trials", "successes")
    guessed = ("rewrites", "coins", "guesses", "right", "loss", "ceiling", "covered", "claimed", "overall", "claim")
    if game.units:
        return chosen(columns, list(UNIT_LOSSES), ("epsilon", "attack", "sees", *guessed))
    if game.worst:
        return chosen(columns, list(WORST_PAIRS), ("epsilon", "pairs", *pair, *proved))
    return chosen(columns, list(AUDIT), SHORT if game.fpr is None else (*SHORT, "tpr", "tpr_low"))


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose `strongest` attack is named."""
    best = row.get("best_attack")
    return {**row, "attack": row["attack"] if best is None else f"{row['attack']}: {best}"}
