"""A dossier for one release: the audit, the claim, the losses shown, the tests left out, and what voids the decision.

Two pages for one mechanism, budget and data set, in the words of the Article 29 Working Party's Opinion 05/2014
(singling out, linkability, inference) and of NIST SP 800-226 (its privacy hazards). `auditing.decisions` decides if a
limit is kept; the dossier reports it. It holds figures and names, but no text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from epsilometer.auditing.claims.verdicts import NO_CLAIM
from epsilometer.auditing.decisions.decide import ALL as WHOLE
from epsilometer.auditing.decisions.limits import ATTRIBUTE, DELTA, IDENTIFIERS, LOSS
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.exact_loss.risk import largest_success_of_pairs, largest_success_over_all
from epsilometer.auditing.exact_loss.rows import ALL, ALPHA
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST
from epsilometer.auditing.schemas import DECISIONS
from epsilometer.core.component import IDENTIFICATION, names
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import at_budget
from epsilometer.core.rounding import DOWN, NOT_TESTABLE, UP, beside
from epsilometer.report.rows import OPTIMAL
from epsilometer.report.sheet import Block, Grid, Heading, Paragraph
from epsilometer.report.wording import of_100, per_100
from epsilometer.studies.texts.report import average
from epsilometer.studies.texts.report.results import TextResults
from epsilometer.studies.texts.report.use import FIXED, uses
from epsilometer.studies.texts.tables import decisions_path

AMONG = (2, 10, 1000)
NOT_LEGAL = "This is a measurement, not a legal finding: whether data are anonymous in law is for its reader to decide."
_KIND: dict[str, str] = {Status.WITHIN: "good", Status.BEYOND: "bad"}  # of a decision, on the page; all others are open
_HIDDEN = ("worst_pair", "texts_above_4", "texts_compared", "pairs_compared", "pairs_there")
_NO_LABELS = "Not tested: the data set has no labels."
_UNSEEN = "none is recorded or has a pattern, and names were not looked for"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Release(_Model):
    """The audited release, and the settings of the audit."""

    dataset: str
    mechanism: str
    epsilon: float | None
    control: bool = Field(description="the mechanism checks the audit and is not to be used")
    texts: int = Field(description="distinct audited texts")
    trials: int
    candidates: int = Field(description="texts among which the source of a rewrite is guessed in a trial")
    attacks: list[str]
    strongest: str
    alpha: float = Field(description="error of an interval")


class Limited(_Model):
    """A stated limit and the bounds on its figure; a row of the table of decisions."""

    limit: str
    allowed: float | None
    low: float | None
    low_by: str | None
    high: float | None
    high_by: str | None
    decision: str
    why: str | None
    needed: int | None
    settles: str | None


class Named(_Model):
    """Right guesses of 100 at the source of a rewrite, among a number of texts."""

    among: int
    guessing: float
    at_least: float | None = Field(description="by the strongest attack, rounded down; null where it was not measured")
    at_most: float | None = Field(
        description="by an adversary who sees one rewrite, over all pairs of texts, by the mechanism's law at 99 %, "
        "rounded up; null without one"
    )
    at_most_compared: float | None = Field(
        description="the same on the pairs of texts compared, without an interval for the others"
    )


class Said(_Model):
    """A question or a hazard, and the audit's answer."""

    about: str
    asks: str
    here: str


class Hash(_Model):
    """A hash of something that the decision depends on: if it changes, the decision is void."""

    of: str
    sha256: str


class Dossier(_Model):
    """One release. `schema` changes with every change that a reader would notice."""

    version: Literal["epsilometer/dossier/3"] = Field(alias="schema", default="epsilometer/dossier/3")
    source: dict[str, str] = Field(description="date, profile, commit, device, and the version of epsilometer")
    release: Release
    decision: str = Field(description="within, beyond, not exceeded by these attacks, or open")
    answer: str
    keeps_more: bool | None = Field(
        description="whether rewrites keep more than one fixed sentence, by cosine; null where it was not measured"
    )
    worst_pair: float | None = Field(
        description="largest loss of a pair of texts compared, in nats; null without a law"
    )
    texts_above_4: int | None = Field(
        description="texts that lose more than 4 nats to at least one text compared with them; null without a law"
    )
    texts_compared: int | None
    pairs_compared: int | None
    pairs_there: int | None = Field(description="pairs of all audited texts")
    limits: list[Limited]
    budgets: dict[str, str] = Field(description="the decision at every audited budget of the mechanism on these texts")
    claim: str
    claim_verdict: str
    named: list[Named]
    questions: list[Said] = Field(description="singling out, linkability, inference (WP29, Opinion 05/2014)")
    hazards: list[Said] = Field(description="privacy hazards of NIST SP 800-226")
    not_tested: list[str]
    would_change: list[str]
    hashes: list[Hash]
    not_legal: str = NOT_LEGAL


def dossier(
    results: TextResults, cell: str, epsilon: float | None, *, source: Mapping[str, str], hashes: Mapping[str, str]
) -> Dossier:
    """The dossier of a cell at one of its budgets, from a finished audit.

    epsilon: None for the largest budget within the limits, else the smallest. source: the origin of the page; hashes:
    SHA-256 of everything that the decision depends on, by name. Raises UserError for a cell or budget that was not
    audited.
    """
    if cell not in results.params.cells:
        raise unknown("cell", cell, list(results.params.cells))
    of = results.params.cells[cell]
    own = results.table(decisions_path(), DECISIONS).filter(dataset=of.dataset, mechanism=of.mechanism)
    at = _budget(own, epsilon)
    rows = own.filter(pl.col("epsilon").eq_missing(pl.lit(at, pl.Float64))).to_dicts()
    tried = _rows_of(results.estimates, of.dataset, of.mechanism, at)
    best = tried.row(by_predicate=pl.col("attack") == STRONGEST, named=True)
    law = _law(results, tried, best)
    whole = next(row for row in rows if row["limit"] == WHOLE)
    limits = [Limited(**{name: row[name] for name in Limited.model_fields}) for row in rows if row["limit"] != WHOLE]
    verdict = next(
        (row for row in results.verdicts.to_dicts() if (row["mechanism"], row["epsilon"]) == (of.mechanism, at)), {}
    )
    release = Release(
        dataset=of.dataset,
        mechanism=of.mechanism,
        epsilon=at,
        control=best["control"],
        texts=results.record(f"data/trials/{of.dataset}.json")["texts"],
        trials=best["trials"],
        candidates=best["candidates"],
        attacks=sorted({*tried["attack"]} - {*CHOSEN}),
        strongest=best["best_attack"] or STRONGEST,
        alpha=results.params.audit.alpha,
    )
    keeps = uses(results).get((of.dataset, of.mechanism, at))
    return Dossier(
        source=dict(source),
        release=release,
        decision=whole["decision"],
        answer=answer(release, whole, keeps),
        keeps_more=keeps,
        **{name: whole[name] for name in _HIDDEN},
        limits=limits,
        budgets={_epsilon(row["epsilon"]): row["decision"] for row in own.filter(limit=WHOLE).to_dicts()},
        claim=best["claim"],
        claim_verdict=_claim(best["claim"], verdict),
        named=_named(release, best, law),
        questions=_questions(limits),
        hazards=_hazards(best, limits, _claim(best["claim"], verdict), fit=law.fit),
        not_tested=_not_tested(release, limits, lawful=law.stated),
        would_change=_would_change(limits),
        hashes=[Hash(of=name, sha256=value) for name, value in hashes.items()],
    )


def blocks(of: Dossier) -> list[Block]:
    """The pages."""
    limits = [
        [
            limited.decision,
            limited.limit,
            _figure(limited.allowed),
            _end(limited.low, limited, DOWN) or _nothing(limited),
            _end(limited.high, limited, UP) or "unknown",
            _open(limited),
        ]
        for limited in of.limits
    ]
    return [
        Paragraph(" · ".join(of.source.values()), "note"),
        Paragraph(
            of.answer, "open" if of.decision == Status.WITHIN and not of.keeps_more else _KIND.get(of.decision, "open")
        ),
        Paragraph(of.not_legal, "note"),
        Heading("What was audited, and how"),
        Paragraph(_how(of)),
        Heading("What is claimed and what is shown"),
        Paragraph(f"Claimed: {of.claim}. {of.claim_verdict}"),
        Grid(
            ["decision", "limit", "allowed", "at least", "at most", "what is open"],
            limits,
            [_KIND.get(limited.decision, "open") for limited in of.limits],
            (22, 26, 12, 22, 24, 60),
        ),
        Paragraph(
            f"loss and attributes in nats: at 1 nat at most {of_100(success_bound(1.0, 2))} guesses between two texts "
            "are right. delta_at_4: the probability of outputs beyond what odds of 55 to 1 account for; the share of "
            "texts given away at such odds may be larger. identifiers: the share in rewrites. All are of one text. Of "
            "a person with n texts the loss is at most n times as much; delta_at_4 and attributes may grow faster, so "
            "that their limits do not divide by n.",
            "note",
        ),
        Paragraph("Right guesses of 100 at the source of a rewrite, among texts that differ as the audited ones:"),
        Grid(
            ["among texts", "by chance", "by our attacks, at least", "at most, pairs compared", "at most, all pairs"],
            [*map(_row, of.named)],
        ),
        Paragraph(
            "The last two columns hold for an adversary who sees one rewrite and knows the mechanism; the last but one "
            "has no interval for pairs not compared.",
            "note",
        ),
        Heading("Singling out, linkability, inference (WP29, Opinion 05/2014)"),
        Grid(["risk", "asks", "here"], [[s.about, s.asks, s.here] for s in of.questions], (), (20, 46, 100)),
        Heading("Privacy hazards (NIST SP 800-226)"),
        Grid(["hazard", "asks", "here"], [[s.about, s.asks, s.here] for s in of.hazards], (), (28, 46, 92)),
        Heading("What was not tested"),
        Paragraph(" ".join(f"({number}) {text}" for number, text in enumerate(of.not_tested, 1))),
        Heading("What would change this decision"),
        Paragraph(" ".join(f"({number}) {text}" for number, text in enumerate(of.would_change, 1))),
        Heading("What voids it"),
        Paragraph("Another model, other data, other settings or other code: anything with another SHA-256 than these."),
        Grid(["of", "SHA-256"], [[each.of, each.sha256] for each in of.hashes], (), (40, 126)),
    ]


def _row(named: Named) -> list[str]:
    by_law = [_of_100(value, "unknown") for value in (named.at_most_compared, named.at_most)]
    return [f"{named.among:,}", _of_100(named.guessing), _of_100(named.at_least), *by_law]


def _how(of: Dossier) -> str:
    """Describe the audit, and the decisions at all budgets."""
    release = of.release
    what = f"{release.texts:,} texts of {release.dataset}, rewritten by {release.mechanism}{at_budget(release.epsilon)}"
    guessed = f"attackers guessed which of {release.candidates:,} texts a rewrite came from"
    attacks = f"{', '.join(release.attacks)}; the strongest: {release.strongest}"
    budgets = ", ".join(f"{epsilon}: {decision}" for epsilon, decision in of.budgets.items())
    return (
        f"{what}. In {release.trials:,} trials {guessed} ({attacks}); where the mechanism's law is known, losses were "
        f"computed from it. Intervals err with probability {release.alpha:g}. Decisions at all budgets: {budgets}."
    )


def title(of: Dossier) -> str:
    """The title of the page."""
    return f"Dossier: {of.release.mechanism}{at_budget(of.release.epsilon)} on {of.release.dataset}"


def schema() -> dict[str, Any]:
    """The JSON schema of the machine-readable twin."""
    return Dossier.model_json_schema(by_alias=True)


def _budget(own: pl.DataFrame, epsilon: float | None) -> float | None:
    """The requested budget; by default the largest within the limits, or the smallest."""
    whole = own.filter(limit=WHOLE).sort("epsilon")
    budgets = whole["epsilon"].to_list()
    if epsilon is not None:
        if epsilon not in budgets:
            raise UserError(
                f"epsilon must be an audited one ({', '.join(map(_epsilon, budgets))}), got {epsilon:g}; a decision "
                "holds for what was measured alone",
                "EPS-S082",
            )
        return epsilon
    within = whole.filter(decision=Status.WITHIN)["epsilon"].to_list()
    budget: float | None = (within or budgets[:1])[-1]
    return budget


def _rows_of(table: pl.DataFrame, dataset: str, mechanism: str, epsilon: float | None) -> pl.DataFrame:
    some = table.filter(dataset=dataset, mechanism=mechanism)
    return some.filter(pl.col("epsilon").eq_missing(pl.lit(epsilon, pl.Float64)))


@dataclass(frozen=True)
class _Law:
    """The stated law of a cell, as evidence on naming sources.

    stated: True if there is one. departs: True if rewrites depart from it, None if that was not tested. row: of
    `EXACT`, over all pairs. curve: level and delta on the pairs compared. interval: True if its 99 % interval over all
    pairs errs no more often than the audit allows. The last three are set only if the law may be believed.
    """

    stated: bool
    departs: bool | None
    row: Mapping[str, Any] | None = None
    curve: Sequence[tuple[float, float]] = ()
    interval: bool = False

    @property
    def fit(self) -> str:
        """Say if the rewrites follow the law."""
        if not self.stated:
            return "There is no stated law."
        if self.departs is None:
            return "Whether the rewrites follow the stated law was not tested."
        return (
            "The rewrites depart from the stated law." if self.departs else "No departure from the stated law was seen."
        )


def _law(results: TextResults, tried: pl.DataFrame, best: Mapping[str, Any]) -> _Law:
    """The law of a cell. tried: its rows of `ESTIMATES`, any of which may refute it; best: the strongest attack's."""
    of = (best["dataset"], best["mechanism"], best["epsilon"])
    rows = _rows_of(results.exact.filter(pairs=ALL), *of)
    tests = tried["departs"].drop_nulls()
    departs = bool(tests.any()) if len(tests) else None
    if departs or rows.is_empty():
        return _Law(stated=len(tests) > 0, departs=departs)
    curve = _rows_of(results.exact_curves.filter(pairs=ALL), *of).sort("level")
    points = curve.select("level", "delta_high").rows()
    return _Law(True, departs, rows.row(0, named=True), points, interval=results.params.audit.alpha >= ALPHA)


def _untested(limited: Limited) -> bool:
    """True for labels that nobody asked to hide."""
    return limited.limit == ATTRIBUTE and limited.decision == Status.OPEN


def answer(release: Release, whole: Mapping[str, Any], keeps: bool | None) -> str:
    """Return the decision, what the average hides and what the rewrites keep. keeps: as `use.uses` returns it."""
    what = f"{release.mechanism}{at_budget(release.epsilon)} on {release.dataset}"
    if release.control:
        return f"{what} is a control that checks the audit: it is not to be used."
    if whole["decision"] == Status.WITHIN:
        worth = {
            True: f"It keeps more than {FIXED}.",
            False: f"It keeps no more than {FIXED}, so that its release is not recommended.",
            None: "Its use was not measured, so that its release is not recommended.",
        }
        return (
            f"Within the stated limits: {what} keeps every limit that was tested, against every adversary who sees one "
            f"rewrite and compares texts; linking with other data was not tested. {average.hidden(whole)} "
            f"{worth[keeps]}"
        )
    if whole["decision"] == Status.BEYOND:
        return f"Beyond the stated limits: {what} exceeds {whole['why']}. It is not to be released at this budget."
    if whole["decision"] == Status.NOT_EXCEEDED:
        return (
            f"No attack of ours exceeded the stated limits: {what} is a black box, of which nothing shows that another "
            f"attack would not. {average.hidden(whole)}"
        )
    settles = f" It would be settled by {whole['settles']}." if whole["settles"] else ""
    return f"Not shown: of {what} it is open whether it keeps the stated limits ({whole['why']}).{settles}"


def _claim(claim: str, verdict: Mapping[str, Any]) -> str:
    if claim == NO_CLAIM or not verdict:
        return "There is no claim to be checked."
    by = f", by {verdict['by']}" if verdict["by"] else ""
    reason = f" ({verdict['reason']})" if verdict["reason"] else ""
    return f"The claim is {verdict['verdict']}{by}{reason}."


def _named(release: Release, best: Mapping[str, Any], law: _Law) -> list[Named]:
    """Return the bounds among 2, 10 and 1,000 texts, and the audit's number; only the last has a bound by attacks."""
    rows = []
    for among in sorted({*AMONG, release.candidates}):
        tried = among == release.candidates and best["ceiling"] > 0
        compared = largest_success_of_pairs(law.row, law.curve, among) if law.row and law.curve else None
        every = largest_success_over_all(law.row, release.candidates, among) if law.row and law.interval else None
        rows.append(
            Named(
                among=among,
                guessing=per_100(1 / among),
                at_least=per_100(success_bound(best["loss"], among), DOWN) if tried else None,
                at_most=None if every is None else per_100(every),
                at_most_compared=None if compared is None else per_100(compared),
            )
        )
    return rows


def _questions(limits: Sequence[Limited]) -> list[Said]:
    by = {limited.limit: limited for limited in limits}
    kinds = [limited for limited in limits if limited.limit.startswith(f"{IDENTIFIERS}:")]
    attributes = [limited for limited in limits if limited.limit.startswith(f"{ATTRIBUTE}:")]
    left = "; ".join(f"{_of(limited)} {_range(limited)} ({limited.decision})" for limited in kinds)
    inferred = "; ".join(f"{_of(limited)} {_range(limited)} nats ({limited.decision})" for limited in attributes)
    return [
        Said(
            about="Singling out",
            asks="Can a rewrite be traced to one person's text?",
            here=f"Loss {_range(by[LOSS])} nats, {by[LOSS].decision}; given away by rare outputs: {_range(by[DELTA])}, "
            f"{by[DELTA].decision}. Identifiers that stand in rewrites: {left or _UNSEEN}.",
        ),
        Said(
            about="Linkability",
            asks="Can a rewrite be joined with other data of the person?",
            here="With a text that somebody has: the loss above. With facts or other texts of the person: not tested "
            "here (epsilometer ask linking); such a loss is at most twice that between any two texts.",
        ),
        Said(
            about="Inference",
            asks="Can an attribute be inferred?",
            here=f"{inferred}."
            if inferred
            else next((f"Not tested: {each.why}." for each in limits if _untested(each)), _NO_LABELS),
        ),
    ]


def _hazards(best: Mapping[str, Any], limits: Sequence[Limited], verdict: str, fit: str) -> list[Said]:
    by = {limited.limit: limited for limited in limits}
    return [
        Said(about="Privacy parameter", asks="Is epsilon small, and of what?", here=f"{best['claim']}. {verdict}"),
        Said(
            about="Unit of privacy",
            asks="A word, a text or a person?",
            here="Measured of one text. Several texts of a person, and further rewrites of a text, add up.",
        ),
        Said(
            about="Delta",
            asks="What happens in the rare case?",
            here=f"delta at 4 nats {_range(by[DELTA])}: {by[DELTA].decision}.",
        ),
        Said(about="Implementation", asks="Does the code do what is proved?", here=f"{fit} {verdict}"),
        Said(
            about="Randomness, floating point",
            asks="Is noise secret and exact?",
            here="Not tested: an audit's noise has a seed, by which anybody inverts it. Publish without --seed.",
        ),
        Said(
            about="Trust and access",
            asks="Who sees texts, logs, times?",
            here="Not tested: who rewrites sees the texts; times, logs and failures of a service are no part of this.",
        ),
        Said(
            about="Public data",
            asks="What is taken for public?",
            here="Vocabularies and models are, and whatever the claim above names as public.",
        ),
    ]


def _not_tested(release: Release, limits: Sequence[Limited], *, lawful: bool) -> list[str]:
    left = sorted({*names(IDENTIFICATION)} - {*release.attacks} - {OPTIMAL if not lawful else ""})
    return [
        *([] if lawful else [f"The optimal adversary ({OPTIMAL}): no law is known."]),
        *([f"The attacks {', '.join(left)}."] if left else []),
        "Linking by facts or other texts of a person, and several rewrites of one text read together.",
        *(f"{each.limit}: {each.why}." for each in limits if each.decision == Status.NOT_APPLICABLE or _untested(each)),
        f"Texts unlike the audited ones of {release.dataset}, such as longer ones or those of another language.",
        "Side channels and the service around the mechanism.",
    ]


def _would_change(limits: Sequence[Limited]) -> list[str]:
    settled = [f"{limited.limit}: {_settled(limited)}." for limited in limits if limited.settles]
    return [
        *settled,
        "Other limits: they are stated in params.yaml, and are not the audit's to choose.",
        "A proof that a stated law is wrong, or a stronger attack where the decision rests on attacks.",
    ]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _end(value: float | None, limited: Limited, way: str) -> str:
    by = limited.low_by if way == DOWN else limited.high_by
    return "" if value is None else f"{_beside(value, limited.allowed, way)} ({by})"


def _nothing(limited: Limited) -> str:
    """The entry for a missing lower bound: unknown for an attribute, which no attack tests here."""
    return NOT_TESTABLE if limited.limit in (LOSS, DELTA) else "unknown"


def _range(limited: Limited) -> str:
    low = "from 0" if limited.low is None else _beside(limited.low, limited.allowed, DOWN)
    return f"{low} to {'unknown' if limited.high is None else _beside(limited.high, limited.allowed, UP)}"


def _beside(value: float, allowed: float | None, way: str) -> str:
    """A bound with three digits of the limit, or as many as keep it on its side of the limit.

    way: DOWN for a lower bound, UP for an upper one, so that neither says more than was shown.
    """
    if allowed is None or not math.isfinite(value):
        return f"{value:.3g}"
    text = beside(value, allowed, way, max(0, 2 - math.floor(math.log10(allowed))))
    return text.rstrip("0").rstrip(".") if "." in text else text


def _open(limited: Limited) -> str:
    return "; ".join(part for part in (limited.why, _settled(limited)) if part)


def _settled(limited: Limited) -> str:
    """Return what would settle the limit; empty if it is settled."""
    count = f"{limited.needed:,} " if limited.needed else ""
    return f"{count}{limited.settles} would settle it" if limited.settles else ""


def _of(limited: Limited) -> str:
    """The kind of identifier, or the label."""
    return limited.limit.partition(": ")[2]


def _of_100(value: float | None, nothing: str = "not measured") -> str:
    return nothing if value is None else f"{value:g}"


def _epsilon(epsilon: float | None) -> str:
    return "no budget" if epsilon is None else f"{epsilon:g}"
