"""A dossier for one release: a page to sign, in plain words, and a page of evidence.

A release is one mechanism at one budget on one data set. The evidence follows the Article 29 Working Party's Opinion
05/2014 (singling out, linkability, inference) and NIST SP 800-226 (its privacy hazards). `auditing.decisions` decides
if a limit is kept, and the dossier reports the decision. The dossier quotes no text of a data set.
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
from epsilometer.cells.tables import decisions_path
from epsilometer.core.component import IDENTIFICATION, names
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.guarantees import at_budget
from epsilometer.core.rounding import DOWN, NEAREST, NOT_TESTABLE, UP, beside
from epsilometer.project.sections import Cell
from epsilometer.report.cells import average
from epsilometer.report.cells.answers import Counts
from epsilometer.report.cells.average import SURELY
from epsilometer.report.cells.datasets import audited
from epsilometer.report.cells.first_screen import otherwise
from epsilometer.report.cells.limit_names import limit_name
from epsilometer.report.cells.possible import pure_claims
from epsilometer.report.cells.results import TextResults
from epsilometer.report.cells.survivors import counts
from epsilometer.report.cells.use import FIXED, UNKNOWN, Kept, uses
from epsilometer.report.rows import OPTIMAL
from epsilometer.report.sheet import Block, Break, Form, Grid, Heading, Paragraph
from epsilometer.report.wording import FEW, guesses, guesses_beside, listed, per_100, survived

AMONG = (2, 10, 1000)
NOT_LEGAL = "This is a measurement, not a legal finding. Its reader must decide whether data are anonymous in law."
# Colours of decisions; a decision that is missing here has the colour "open".
_KIND: dict[str, str] = {Status.WITHIN: "good", Status.BEYOND: "bad"}
_HOLDS: dict[str, str] = {Status.WITHIN: "holds", Status.BEYOND: "exceeded"}  # word for the status of a single limit
_HIDDEN = ("worst_pair", "texts_above_4", "texts_compared", "pairs_compared", "pairs_there", "largest")
NO_WORDS = "write a paragraph in its docstring that begins “In plain words it”, and it is shown here"
_NO_LABELS = "Not tested: the data set has no labels."
_UNSEEN = "none is recorded, and no pattern of identifiers matches; names were not searched for"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Release(_Model):
    """The audited release, and the settings of the audit."""

    dataset: str
    mechanism: str
    epsilon: float | None
    control: bool = Field(description="whether the mechanism only checks the audit and must not be used")
    texts: int = Field(description="distinct audited texts")
    trials: int
    candidates: int = Field(description="texts among which the source of a rewrite is guessed in a trial")
    attacks: list[str]
    strongest: str
    alpha: float = Field(description="error probability of an interval")


class Limited(_Model):
    """A limit and the bounds on its figure: a row of the table of decisions."""

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
    survived: int | None = Field(None, description="for identifiers, the number that occur in rewrites")
    cases: int | None = Field(None, description="for identifiers, the number of all")


class Named(_Model):
    """The right guesses of 100 about the source of a rewrite, among a number of texts."""

    among: int
    guessing: float
    at_least: float | None = Field(description="by the strongest attack, rounded down; null if it was not measured")
    at_most: float | None = Field(
        description="for an adversary who sees one rewrite, over all pairs of texts, by the mechanism's law at 99 %, "
        "rounded up; null without a law"
    )
    at_most_compared: float | None = Field(
        description="as at_most, but over the compared pairs of texts, without an interval for other pairs"
    )


class Use(_Model):
    """The utility of rewrites; null if it was not measured."""

    cosine: float | None = Field(description="mean cosine of text and rewrite")
    fixed_sentence: float | None = Field(description="mean cosine of text and the best fixed sentence for everybody")
    f1: dict[str, float] = Field(description="macro F1 of classifiers trained on rewrites, by label")
    f1_of_texts: dict[str, float] = Field(
        description="macro F1 of classifiers trained on the texts themselves, by label"
    )
    more: bool | None = Field(description="whether the cosine of rewrites exceeds that of the fixed sentence")


class Person(_Model):
    """The number of texts of a person, and its consequences. A limit of the audit is for one text."""

    texts: int
    confirmed: bool = Field(
        description="whether the writer of the dossier stated the number; otherwise one text is assumed"
    )
    at_most: float | None = Field(
        description="right guesses of 100 between two people with this number of texts; null without an upper bound"
    )
    holds: bool = Field(description="whether the upper bounds for all texts of a person are within the limits")


class Said(_Model):
    """A question or a hazard, with the audit's answer."""

    about: str
    asks: str
    here: str


class Hash(_Model):
    """The hash of an input of the decision. If the input changes, the decision is void."""

    of: str
    sha256: str


class Dossier(_Model):
    """The dossier of one release. `schema` changes with every change that a reader would notice."""

    version: Literal["epsilometer/dossier/4"] = Field(alias="schema", default="epsilometer/dossier/4")
    source: dict[str, str] = Field(description="date, profile, commit, device, and the version of epsilometer")
    release: Release
    decision: str = Field(description="within, beyond, not exceeded by these attacks, or open")
    answer: str
    audited: str = Field(description="whether the texts are real or generated")
    mechanism_does: str = Field(description="a description in plain words; empty if the mechanism's file has none")
    use: Use
    use_in_words: str
    person: Person
    worst_pair: float | None = Field(
        description="largest loss of a compared pair of texts, in nats; null without a law"
    )
    texts_above_4: int | None = Field(
        description="number of texts that lose more than 4 nats in at least one compared pair; null without a law"
    )
    texts_compared: int | None
    pairs_compared: int | None
    pairs_there: int | None = Field(description="number of pairs of all audited texts")
    largest: float | None = Field(description="largest loss of any output, over all pairs, in nats; null if unknown")
    otherwise: str = Field(
        description="the limits that are kept for all texts, and those that are kept for all random numbers"
    )
    limits: list[Limited]
    budgets: dict[str, str] = Field(description="the decision at every audited budget of the mechanism on these texts")
    kept_at_budgets: dict[str, str] = Field(
        description="the utility of the rewrites at each of these budgets, in words"
    )
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
    results: TextResults,
    cell: str,
    epsilon: float | None,
    *,
    source: Mapping[str, str],
    hashes: Mapping[str, str],
    texts_per_person: int | None = None,
) -> Dossier:
    """Return the dossier of a cell at one of its budgets, from a finished audit.

    epsilon: None for the largest budget within the limits; without such a budget, for the smallest budget. source: the
    origin of the page. hashes: SHA-256 of everything that the decision depends on, by name. texts_per_person: the
    number that the user has confirmed; None assumes one text. Raises UserError for a cell or budget that was not
    audited, and for less than one text per person.
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
    limits = _limits(rows, counts(results))
    verdict = next(
        (row for row in results.verdicts.to_dicts() if (row["mechanism"], row["epsilon"]) == (of.mechanism, at)), {}
    )
    release = _release(results, of, best, tried)
    keeps = uses(results)
    use = keeps.get((of.dataset, of.mechanism, at), UNKNOWN)
    person = _person(texts_per_person, limits, whole)
    return Dossier(
        source=dict(source),
        release=release,
        decision=whole["decision"],
        answer=answer(release, whole, use, person),
        audited=audited(results, [release.dataset]).replace("**", ""),
        mechanism_does=results.means(of.mechanism),
        use=_use(use),
        use_in_words=use.sentence,
        person=person,
        **{name: whole[name] for name in _HIDDEN},
        otherwise=otherwise(rows, pure_claims(results).get((of.dataset, of.mechanism, at))),
        limits=limits,
        budgets={_epsilon(row["epsilon"]): row["decision"] for row in own.filter(limit=WHOLE).to_dicts()},
        kept_at_budgets={
            _epsilon(e): keeps.get((of.dataset, of.mechanism, e), UNKNOWN).briefly for e in own["epsilon"]
        },
        claim=best["claim"],
        claim_verdict=_claim(best["claim"], verdict),
        named=_named(release, best, law),
        questions=_questions(limits),
        hazards=_hazards(best, limits, _claim(best["claim"], verdict), fit=law.fit),
        not_tested=_not_tested(release, limits, lawful=law.stated),
        would_change=_would_change(limits),
        hashes=[Hash(of=name, sha256=value) for name, value in hashes.items()],
    )


def _release(results: TextResults, of: Cell, best: Mapping[str, Any], tried: pl.DataFrame) -> Release:
    """Return the audited release. best: the strongest attack's row of `ESTIMATES`; tried: the rows of all attacks."""
    return Release(
        dataset=of.dataset,
        mechanism=of.mechanism,
        epsilon=best["epsilon"],
        control=best["control"],
        texts=results.record(f"data/trials/{of.dataset}.json")["texts"],
        trials=best["trials"],
        candidates=best["candidates"],
        attacks=sorted({*tried["attack"]} - {*CHOSEN}),
        strongest=best["best_attack"] or STRONGEST,
        alpha=results.params.audit.alpha,
    )


def blocks(of: Dossier) -> list[Block]:
    """Return both pages."""
    return [*_to_sign(of), Break(), *_evidence(of)]


def _to_sign(of: Dossier) -> list[Block]:
    """Return the page to sign. It explains each epsilon by its effect, and each loss in guesses."""
    release = of.release
    does = of.mechanism_does or f"is described only in its file ({NO_WORDS})"
    return [
        Paragraph(of.source.get("date", ""), "note"),
        Paragraph(of.answer, _colour(of)),
        Paragraph(of.not_legal, "note"),
        Heading("What was audited"),
        Paragraph(of.audited),
        Paragraph(f"{release.mechanism}{at_budget(release.epsilon)} {does}."),
        Heading("What it means for a person, and how useful the rewrites are"),
        Grid(["What an attacker learns", "Utility of the rewrites"], [[_means(of), of.use_in_words]], (), (100, 70)),
        Heading("The risk that remains"),
        Paragraph(_remains(of)),
        Heading("What was not tested"),
        Paragraph(" ".join(f"({number}) {text}" for number, text in enumerate(of.not_tested, 1))),
        Heading("What makes it void"),
        Paragraph(
            "Another model, other data, other settings, other code (anything whose digest differs from the second "
            "page), or more texts per person than stated."
        ),
        Heading("For the file"),
        Form(
            [
                ("Recipient", ""),
                ("Purpose", ""),
                ("Texts per person", f"{of.person.texts:,} ({'confirmed' if of.person.confirmed else 'assumed'})"),
                ("Owner of the texts", ""),
                ("Date", ""),
                ("Review date", ""),
                ("Signature of the owner", ""),
                ("Signature of the data protection officer", ""),
            ]
        ),
    ]


def _colour(of: Dossier) -> str:
    if of.decision == Status.WITHIN:
        return "good" if of.use.more and of.person.holds else "open"
    return _KIND.get(of.decision, "open")


def _means(of: Dossier) -> str:
    """Describe an attacker's success: between two texts, among more texts, and for a person with several texts."""
    loss = next(limited for limited in of.limits if limited.limit == LOSS)
    if loss.high is not None and math.isfinite(loss.high):
        said = [
            f"An attacker with two texts and a rewrite of one of them picks the right text in at most "
            f"{_guesses(loss, UP)}."
        ]
    elif loss.low is not None:
        said = [
            f"The attacks of the audit pick the right one of two texts in at least {_guesses(loss, DOWN)}; more is not "
            "ruled out."
        ]
    else:
        said = ["The attacker's guesses were not measured."]
    said += [
        f"Among {named.among:,} texts: at most {named.at_most:g} of 100 ({named.guessing:g} by chance)."
        for named in of.named
        if named.among != 2 and named.at_most is not None
    ]
    if of.person.texts > 1:
        most = "nothing is ruled out"
        if of.person.at_most is not None:
            most = f"at most {of.person.at_most:g} of 100 guesses, if the texts are independent of each other"
        said.append(f"For a person with {of.person.texts:,} texts: {most}.")
    return " ".join(said)


def _guesses(loss: Limited, way: str) -> str:
    """Describe a bound: `71.0 of 100 guesses (0.90 nats; 50 is chance, 73.1 is allowed)`."""
    value, allowed = (loss.high, loss.allowed) if way == UP else (loss.low, loss.allowed)
    assert value is not None
    assert allowed is not None
    return (
        f"{guesses_beside(value, allowed, way)} of 100 guesses ({_beside(value, allowed, way)} nats; 50 is chance, "
        f"{guesses(allowed, NEAREST):g} is allowed)"
    )


def _remains(of: Dossier) -> str:
    """Describe the remaining risk: worst pair, rare outputs and identifiers, and the limits that hold for any texts."""
    rest = [limited for limited in of.limits if limited.limit != LOSS and limited.allowed is not None]
    said = [average.hidden(of.model_dump())]
    said += [f"{limit_name(limited.limit).capitalize()}: {_range(limited)}." for limited in rest]
    if of.otherwise:
        said.append(f"{of.otherwise[:1].upper()}{of.otherwise[1:]}.")
    return " ".join(said)


def _evidence(of: Dossier) -> list[Block]:
    """Return the page of evidence, with the digests at its end."""
    limits = [
        [
            _HOLDS.get(limited.decision, limited.decision),
            limit_name(limited.limit),
            _value(limited.allowed, limited),
            _end(limited.low, limited, DOWN) or _nothing(limited),
            _end(limited.high, limited, UP) or "unknown",
            _open(limited),
        ]
        for limited in of.limits
    ]
    return [
        Heading("Evidence"),
        Paragraph(" · ".join(of.source.values()), "note"),
        Paragraph(_how(of)),
        Paragraph(f"Claimed: {of.claim}. {of.claim_verdict} Utility: {of.use_in_words}"),
        Grid(
            ["limit", "of", "allowed", "at least", "at most", "what is open"],
            limits,
            [_KIND.get(limited.decision, "open") for limited in of.limits],
            (20, 28, 20, 28, 28, 46),
            small=True,
        ),
        Paragraph(
            "Guesses: right guesses of 100 between two texts, with the nats in brackets. Rare outputs give a text away "
            f"in more than {SURELY:g} of 100 guesses (δ at 4 nats). All limits are for one text. For a person with n "
            "texts that are independent of each other, the nats are at most n times as many. Rare outputs and "
            "attributes may grow faster than n.",
            "note",
        ),
        Paragraph("Right guesses of 100 about the source of a rewrite, among texts like the audited texts:"),
        Grid(
            ["among texts", "by chance", "by attacks, at least", "at most, pairs compared", "at most, all pairs"],
            [*map(_row, of.named)],
            small=True,
        ),
        Grid(
            ["risk (WP29, Opinion 05/2014)", "asks", "here"],
            [[s.about, s.asks, s.here] for s in of.questions],
            (),
            (26, 42, 98),
            small=True,
        ),
        Grid(
            ["hazard (NIST SP 800-226)", "asks", "here"],
            [[s.about, s.asks, s.here] for s in of.hazards],
            (),
            (30, 42, 94),
            small=True,
        ),
        Heading("What would change this decision"),
        Paragraph(" ".join(f"({number}) {text}" for number, text in enumerate(of.would_change, 1))),
        Grid(["digest of", "SHA-256"], [[each.of, each.sha256] for each in of.hashes], (), (50, 116), small=True),
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
    budgets = "; ".join(
        f"{epsilon}: {decision}, {of.kept_at_budgets[epsilon]}" for epsilon, decision in of.budgets.items()
    )
    return (
        f"{what}. In {release.trials:,} trials {guessed} ({attacks}); if the mechanism's law is known, losses were "
        f"computed from it. Intervals err with probability {release.alpha:g}. Decisions at all budgets: {budgets}."
    )


def _use(measured: Kept) -> Use:
    return Use(
        cosine=measured.worth,
        fixed_sentence=measured.fixed,
        f1={score.label: score.rewrites for score in measured.scores},
        f1_of_texts={score.label: score.clean for score in measured.scores if score.clean is not None},
        more=measured.more,
    )


def _person(confirmed: int | None, limits: Sequence[Limited], whole: Mapping[str, Any]) -> Person:
    """Return the consequences for a person with several texts.

    Each of the person's n texts forms a pair with a text that it could be confused with. If these pairs are drawn
    independently, and the noise of the n rewrites is independent, the loss of all rewrites is at most n times the loss
    of one rewrite (`decisions.limits`). The figures on rare outputs and attributes do not multiply in this way, but the
    largest loss of any output does. So the limits on rare outputs and on attributes hold if n times this largest loss
    is at most 4 nats and at most the limit of every attribute.
    """
    if confirmed is not None and confirmed < 1:
        raise UserError(f"texts per person must be at least 1, got {confirmed}; leave it out to assume 1", "EPS-S118")
    texts = confirmed or 1
    by = {limited.limit: limited for limited in limits}
    high = by[LOSS].high
    bounded = high is not None and math.isfinite(high)
    most = guesses(texts * (high or 0.0)) if bounded else None
    holds = texts == 1
    if not holds and bounded and whole["largest"] is not None:
        largest = texts * whole["largest"]
        attributes = [each.allowed for each in limits if each.limit.startswith(ATTRIBUTE) and each.allowed is not None]
        holds = texts * (high or 0.0) <= (by[LOSS].allowed or 0.0) and largest <= min([4.0, *attributes])
    return Person(texts=texts, confirmed=confirmed is not None, at_most=most, holds=holds)


def title(of: Dossier) -> str:
    """Return the title of the page."""
    return f"Dossier: {of.release.mechanism}{at_budget(of.release.epsilon)} on {of.release.dataset}"


def schema() -> dict[str, Any]:
    """Return the JSON schema of the dossier's JSON file."""
    return Dossier.model_json_schema(by_alias=True)


def _budget(own: pl.DataFrame, epsilon: float | None) -> float | None:
    """Return the requested budget; by default the largest within the limits, else the smallest."""
    whole = own.filter(limit=WHOLE).sort("epsilon")
    budgets = whole["epsilon"].to_list()
    if epsilon is not None:
        if epsilon not in budgets:
            raise UserError(
                f"epsilon must be an audited one ({', '.join(map(_epsilon, budgets))}), got {epsilon:g}; a decision "
                "holds only for what was measured",
                "EPS-S082",
            )
        return epsilon
    within = whole.filter(decision=Status.WITHIN)["epsilon"].to_list()
    budget: float | None = (within or budgets[:1])[-1]
    return budget


def _limits(rows: Sequence[Mapping[str, Any]], counted: Counts) -> list[Limited]:
    """Return the limits of a cell, with the counts of identifiers. rows: the cell's rows of `DECISIONS`."""
    limits = []
    for row in rows:
        if row["limit"] != WHOLE:
            key = (row["dataset"], row["mechanism"], row["epsilon"], row["limit"])
            survivors, cases = counted.get(key, (None, None))
            named = {name: row[name] for name in Limited.model_fields if name in row}
            limits.append(Limited(**named, survived=survivors, cases=cases))
    return limits


def _rows_of(table: pl.DataFrame, dataset: str, mechanism: str, epsilon: float | None) -> pl.DataFrame:
    some = table.filter(dataset=dataset, mechanism=mechanism)
    return some.filter(pl.col("epsilon").eq_missing(pl.lit(epsilon, pl.Float64)))


@dataclass(frozen=True)
class _Law:
    """The stated law of a cell, as evidence on guesses about sources.

    stated: True if there is a law. departs: True if rewrites depart from the law, None if that was not tested. The
    other fields are set only if rewrites do not contradict the law. row: the row of `EXACT` over all pairs. curve:
    level and delta on the compared pairs. interval: True if the error of the 99 % interval over all pairs, 1 %, is
    at most the audit's alpha.
    """

    stated: bool
    departs: bool | None
    row: Mapping[str, Any] | None = None
    curve: Sequence[tuple[float, float]] = ()
    interval: bool = False

    @property
    def fit(self) -> str:
        """A sentence that states if the rewrites follow the law."""
        if not self.stated:
            return "The mechanism states no law."
        if self.departs is None:
            return "Whether the rewrites follow the stated law was not tested."
        return (
            "The rewrites depart from the stated law." if self.departs else "No departure from the stated law was seen."
        )


def _law(results: TextResults, tried: pl.DataFrame, best: Mapping[str, Any]) -> _Law:
    """Return the law of a cell. tried: the cell's rows of `ESTIMATES`; each row may refute the law.

    best: the row of the strongest attack.
    """
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
    """Return True for labels that are not under `decide.attributes`."""
    return limited.limit == ATTRIBUTE and limited.decision == Status.OPEN


def answer(release: Release, whole: Mapping[str, Any], use: Kept, person: Person | None = None) -> str:
    """Return the answer, with the utility of the rewrites. person: the texts of a person; None for one text."""
    what = f"{release.mechanism}{at_budget(release.epsilon)} on {release.dataset}"
    if release.control:
        return f"No: {what} is a control that checks the audit. It must not be used."
    if whole["decision"] == Status.WITHIN:
        if person is not None and not person.holds:
            return (
                f"Not shown: {what} keeps every limit that was tested for one text of a person, but not for "
                f"{person.texts:,}. {use.sentence}"
            )
        opening = {
            True: f"Yes, it may be released: {what} keeps every limit that was tested.",
            False: f"Its release is not recommended: {what} keeps every limit, but is no more useful than {FIXED}.",
            None: f"Its release is not recommended: {what} keeps every limit that was tested, but its utility is "
            "unknown.",
        }
        return (
            f"{opening[use.more]} {use.sentence} This holds against every adversary who sees one rewrite and "
            "compares texts; linking with other data was not tested."
        )
    if whole["decision"] == Status.BEYOND:
        exceeded = listed([limit_name(limit) for limit in whole["why"].split(", ")], len(whole["why"]))
        return f"No: {what} exceeds a limit ({exceeded}). It must not be released at this budget."
    if whole["decision"] == Status.NOT_EXCEEDED:
        return (
            f"Not shown: no attack of the audit exceeded the limits for {what}, but no law bounds its loss, so "
            f"another attack may. {use.sentence}"
        )
    settles = f" It would be settled by {whole['settles']}." if whole["settles"] else ""
    return f"Not shown: it is open whether {what} keeps the limits ({whole['why']}).{settles}"


def _claim(claim: str, verdict: Mapping[str, Any]) -> str:
    if claim == NO_CLAIM or not verdict:
        return "The mechanism makes no claim that could be checked."
    by = f", by {verdict['by']}" if verdict["by"] else ""
    reason = f" ({verdict['reason']})" if verdict["reason"] else ""
    return f"The claim is {verdict['verdict']}{by}{reason}."


def _named(release: Release, best: Mapping[str, Any], law: _Law) -> list[Named]:
    """Return bounds on guesses among 2, 10, 1,000 and the audit's number of texts. Attacks bound only the last."""
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
    left = "; ".join(f"{_of(limited)} {_range(limited)}" for limited in kinds)
    inferred = "; ".join(f"{_of(limited)} {_range(limited)}" for limited in attributes)
    return [
        Said(
            about="Singling out",
            asks="Can a rewrite be traced to one person's text?",
            here=f"Guesses between two texts: {_range(by[LOSS])}. Rare outputs: {_range(by[DELTA])}. Identifiers that "
            f"occur in rewrites: {left or _UNSEEN}.",
        ),
        Said(
            about="Linkability",
            asks="Can a rewrite be joined with other data of the person?",
            here="With a text that the attacker has: the guesses above. With facts or other texts of the person: not "
            "tested here (epsilometer ask linking); that loss is at most twice the loss between any two texts.",
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
        Said(
            about="Privacy parameter",
            asks="Is epsilon small, and what does it cover?",
            here=f"{best['claim']}. {verdict}",
        ),
        Said(
            about="Unit of privacy",
            asks="A word, a text or a person?",
            here="Measured for one text. Several texts of a person, and further rewrites of a text, add up.",
        ),
        Said(
            about="Delta",
            asks="What happens in the rare case?",
            here=f"Rare outputs: {_range(by[DELTA])}.",
        ),
        Said(about="Implementation", asks="Does the code do what is proved?", here=f"{fit} {verdict}"),
        Said(
            about="Randomness, floating point",
            asks="Is noise secret and exact?",
            here="Not tested: an audit's noise has a seed, and anybody who knows it can invert the noise. Publish "
            "without --seed.",
        ),
        Said(
            about="Trust and access",
            asks="Who sees texts, logs, times?",
            here="Not tested. The mechanism's operator sees the texts; times, logs and failures of a service may leak.",
        ),
        Said(
            about="Public data",
            asks="What is assumed to be public?",
            here="Vocabularies and models, and everything else that the claim above assumes to be public.",
        ),
    ]


def _not_tested(release: Release, limits: Sequence[Limited], *, lawful: bool) -> list[str]:
    left = sorted({*names(IDENTIFICATION)} - {*release.attacks} - {OPTIMAL if not lawful else ""})
    return [
        *([] if lawful else [f"The optimal adversary ({OPTIMAL}): no law is known."]),
        *([f"The attacks {', '.join(left)}."] if left else []),
        "Linking by facts or other texts of a person, and combining several rewrites of one text.",
        *(f"Labels that need not be hidden: {each.why}." for each in limits if _untested(each)),
        *(
            f"{limit_name(each.limit).capitalize()}: {each.why}."
            for each in limits
            if each.decision == Status.NOT_APPLICABLE
        ),
        f"Texts unlike the audited texts of {release.dataset}, such as longer texts or texts in another language.",
        "Side channels and the service around the mechanism.",
    ]


def _would_change(limits: Sequence[Limited]) -> list[str]:
    settled = [f"{limited.limit}: {_settled(limited)}." for limited in limits if limited.settles]
    return [
        *settled,
        "Other limits: people state them in params.yaml; the audit does not choose them.",
        "A proof that a stated law is wrong, or a stronger attack if the decision relies on attacks.",
    ]


def _value(value: float | None, limited: Limited, way: str = NEAREST) -> str:
    """Return a figure on the scale of its limit: guesses of 100 with nats, outputs of 100, or a share in percent."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "∞"
    allowed = limited.allowed
    if limited.limit == LOSS or limited.limit.startswith(ATTRIBUTE):
        if allowed is None or value == allowed:
            return f"{guesses(value, way):g} of 100 ({value:.3g})"
        return f"{guesses_beside(value, allowed, way)} of 100 ({_beside(value, allowed, way)})"
    unit = " of 100" if limited.limit == DELTA else " %"
    return f"{_beside(100 * value, None if allowed is None else 100 * allowed, way)}{unit}"


def _end(value: float | None, limited: Limited, way: str) -> str:
    by = limited.low_by if way == DOWN else limited.high_by
    return "" if value is None else f"{_value(value, limited, way)} ({by})"


def _nothing(limited: Limited) -> str:
    """Return the entry for a missing lower bound: "unknown" for an attribute, since no attack tests attributes here."""
    return NOT_TESTABLE if limited.limit in (LOSS, DELTA) else "unknown"


def _range(limited: Limited) -> str:
    if limited.survived is not None and limited.cases is not None and limited.cases < FEW:
        return survived(limited.survived, limited.cases, limited.high)
    low = "from 0" if limited.low is None else _value(limited.low, limited, DOWN)
    high = "unknown" if limited.high is None else _value(limited.high, limited, UP)
    return high if low == high else f"{low} to {high}"


def _beside(value: float, allowed: float | None, way: str) -> str:
    """Return a bound with as many decimals as its limit has at three significant digits.

    The bound gets more decimals if rounding would move it across the limit. Trailing zeros are left out.
    way: DOWN for a lower bound and UP for an upper bound, so that rounding never overstates the evidence.
    """
    if allowed is None or not math.isfinite(value):
        return f"{value:.3g}"
    text = beside(value, allowed, way, max(0, 2 - math.floor(math.log10(allowed))))
    return text.rstrip("0").rstrip(".") if "." in text else text


def _open(limited: Limited) -> str:
    return "; ".join(part for part in (limited.why, _settled(limited)) if part)


def _settled(limited: Limited) -> str:
    """Return the measurement that would settle the limit, in words; empty if the limit is settled."""
    count = f"{limited.needed:,} " if limited.needed else ""
    return f"{count}{limited.settles} would settle it" if limited.settles else ""


def _of(limited: Limited) -> str:
    """Return the kind of identifier, or the label."""
    return limited.limit.partition(": ")[2]


def _of_100(value: float | None, nothing: str = "not measured") -> str:
    return nothing if value is None else f"{value:g}"


def _epsilon(epsilon: float | None) -> str:
    return "no budget" if epsilon is None else f"{epsilon:g}"
