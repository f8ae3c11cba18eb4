"""The decision of a gate as lines, Markdown, an HTML page, JUnit XML, SARIF, and JSON with a schema."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, Field

from epsilometer.auditing.evidence.evidence import AtLeast, Confident, Hits
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.gate_statistics import (
    MANY,
    Errors,
    Judged,
    Verdict,
    fewest_rewrites,
    least_found,
    least_rate_found,
    least_tail_found,
    most_missed,
)
from epsilometer.auditing.identifiers.surviving import Precision
from epsilometer.auditing.results.scope import DEPLOYMENT
from epsilometer.auditing.subject import Subject
from epsilometer.core.atomic import write_text
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import at_budget, stored
from epsilometer.core.json_text import for_json
from epsilometer.core.rounding import NOT_TESTABLE
from epsilometer.report import sheet
from epsilometer.report.judged import (
    allowed,
    allowed_guesses,
    allowed_nats,
    amount,
    by_law,
    counted,
    number,
    on_scale,
    right,
    seen,
    source,
)

_PLAYED = ("loss", "delta_at_4")  # measures that are computed from the guesses of attacks
_COUNTED = (Hits, AtLeast, Confident)  # kinds of data for which `Decision.least_loss` can be computed
_PRECISION = ("masked", "precision", "precision_low", "precision_high")
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


class Row(BaseModel):
    """The result of an attack, kind of identifier, attacker or other figure, with its limit; losses are in nats."""

    model_config = ConfigDict(extra="forbid")

    attack: str
    measure: str = Field(description="the measure of point, limit and least_found")
    status: Status
    trials: int = Field(
        description="the number of trials. For identifiers: texts, each with one of the kind; for an attribute: tested "
        "texts, or by law pairs of texts; for linking: people of all sets; for unit and similarity: rewritten texts; "
        "for a worst pair: fresh trials of the pair, or by law compared pairs of texts; for a claim: trials, or by "
        "law compared pairs of inputs"
    )
    successes: int | None = Field(
        description="the number of right guesses, inferences or links; for delta_at_4: those beyond a threshold of the "
        "score; for identifiers: those that survived, with --count-partly also in part; null by law, and for unit and "
        "similarity, where each text has a share or a number"
    )
    shape: str | None = Field(description="for planted identifiers: their spelling and place; otherwise null")
    partly: int | None = Field(description="for identifiers: those that survived only in part; otherwise null")
    misses: int | None = Field(description="for delta_at_4: the wrong guesses beyond the threshold; otherwise null")
    point: float | Literal["Infinity"] = Field(
        description="the loss, delta, share or mean at the observed rates, which is not a lower bound; Infinity for an "
        "unbounded loss; for a claim: 1 if it is violated with a p-value of at most 0.05, else 0"
    )
    limit: float | None = Field(description="null if the attack has no limit; its status is then open")
    at_least: bool = Field(description="whether the limit is the smallest allowed value, as for similarity")
    source: str = Field(description="the source of the limit")
    of_baseline: bool = Field(description="whether the limit comes from a baseline")
    least_found: float | None = Field(
        description="the smallest loss, delta or share that these trials would have shown to exceed the limit. null if "
        "there is none, by law, and for linking, unit, similarity and a claim, where it depends on how the numbers of "
        "trials vary. For delta_at_4 it holds if the share of wrong guesses beyond the threshold is at most the 95 % "
        "upper bound by `misses`"
    )
    masked: int | None = Field(
        description="for identifiers: the number of masked runs of words in the texts; null for long texts and other "
        "rows"
    )
    precision: float | None = Field(
        description="the share of masked runs that contain a part of an identifier; null without masked runs"
    )
    precision_low: float | None
    precision_high: float | None


class Counts(BaseModel):
    """Counts of the tested rewrites."""

    model_config = ConfigDict(extra="forbid")

    rewrites: int
    withheld: int = Field(description="number of answers that a service refused or filtered")
    truncated: int = Field(description="number of other answers that a service truncated")
    empty: int = Field(description="number of other rewrites without a visible character")
    missing: int = Field(
        description="number of withheld, truncated or empty answers of a service; if it is not 0, nothing passes"
    )
    reasoning: int = Field(
        description="number of rewrites that contain a model's marked reasoning, which counts as part of them"
    )
    apart: int = Field(description="number of answers with reasoning that is not part of the rewrite")
    constant: bool = Field(description="whether all rewrites of two or more texts are equal")


class Result(BaseModel):
    """The decision of a gate. `schema` changes with every change that a reader would notice."""

    model_config = ConfigDict(extra="forbid")

    version: Literal["epsilometer/gate/7"] = Field(alias="schema", default="epsilometer/gate/7")
    mechanism: str = Field(
        description="name or path; for a program: its file name, without arguments; for a service: its host"
    )
    epsilon: float | None
    passed: bool
    status: Status | None = Field(description="the most serious status of the rows; null if nothing was decided")
    rewrites: int
    attacks: list[Row]
    answers: Counts | None = Field(default=None, description="null if nothing was decided")
    memory: str | None = Field(default=None, description="how repeated texts were answered; null with too few repeats")
    probabilities_of: Literal["law", "deployment"] | None = Field(
        default=None,
        description="what the probabilities of a wrong verdict are for: the mechanism's law, or this deployment, which "
        "repeats stored answers; null with too few repeats",
    )
    query_access: bool | None = Field(
        default=None, description="whether an adversary with query access guessed; null without guesses"
    )
    error: str | None = Field(default=None, description="the reason that nothing was decided, without quoting a text")


@dataclass(frozen=True)
class Decision:
    """A verdict, with its mechanism and settings."""

    mechanism: str
    epsilon: float | None
    candidates: int
    errors: Errors
    verdict: Verdict
    texts: int
    seed: int

    @classmethod
    def of(cls, subject: Subject, errors: Errors, verdict: Verdict) -> Decision:
        """Return the decision on the audited subject."""
        named = (subject.name, stored(subject.epsilon), subject.design.k)
        return cls(*named, errors=errors, verdict=verdict, texts=len(subject.pool.texts), seed=subject.design.seed)

    @property
    def facts(self) -> dict[str, str]:
        """The number of texts, budget, seed and number of rewrites, by name."""
        budget = "none" if self.epsilon is None else f"{self.epsilon:g}"
        return {
            "number of texts": f"{self.texts}",
            "privacy budget (epsilon)": budget,
            "seed": f"{self.seed}",
            "rewrites": f"{self.verdict.trials}",
        }

    @property
    def name(self) -> str:
        """The mechanism and its epsilon."""
        return f"{self.mechanism}{at_budget(self.epsilon)}"

    @property
    def limited(self) -> int:
        """The number of limits, which share alpha."""
        return sum(each.limit is not None for each in self.verdict.attacks)

    @property
    def level(self) -> float:
        """The part of alpha for each limit."""
        return self.errors.alpha / max(1, self.limited)

    def missed(self, judged: Judged) -> float:
        """Return the largest share of trials with wrong confident guesses for which a tail's `least_loss` is valid."""
        return most_missed(judged.misses, judged.trials, errors=self.errors)

    def least_loss(self, judged: Judged) -> float:
        """Return the smallest figure that these trials would have shown to exceed the limit; infinity if none."""
        limit = judged.limit
        if limit is None or limit.at_least or not isinstance(judged.evidence.data, _COUNTED):
            return math.inf
        limited = self.limited
        if judged.measure == "delta_at_4":
            missed, delta = self.missed(judged), limit.allowed
            return least_tail_found(judged.trials, delta, self.candidates, limited, missed=missed, errors=self.errors)
        if judged.measure == "loss":
            return least_found(judged.trials, limit.allowed, self.candidates, limited, errors=self.errors)
        rate = least_rate_found(judged.trials, limit.rate, limited, errors=self.errors)
        return rate if limit.scale.options is None else limit.scale.figure(min(rate, 1.0))


@dataclass(frozen=True)
class Failure:
    """A gate that decided nothing, with the reason."""

    mechanism: str
    epsilon: float | None
    error: str

    @property
    def name(self) -> str:
        """The mechanism and its epsilon."""
        return f"{self.mechanism}{at_budget(self.epsilon)}"


@dataclass(frozen=True)
class Files:
    """A gate's output files, None for a format without one. finding: the file to which SARIF attaches findings."""

    json: Path | None
    markdown: Path | None
    junit: Path | None
    sarif: Path | None
    html: Path | None
    finding: str
    started: float = field(default_factory=monotonic)  # start of the duration in JUnit XML

    def write(self, outcome: Decision | Failure) -> None:
        """Write an outcome in every format that has a file."""
        forms: list[tuple[Path | None, Callable[[Decision | Failure], str]]] = [
            (self.json, as_json),
            (self.markdown, markdown),
            (self.junit, partial(junit, seconds=monotonic() - self.started)),
            (self.sarif, partial(sarif, file=self.finding)),
            (self.html, partial(html, seconds=monotonic() - self.started)),
        ]
        for path, form in forms:
            if path is not None:
                write_text(form(outcome), path)

    @contextmanager
    def of(self, mechanism: str, epsilon: float | None) -> Iterator[None]:
        """Write error results first, so that a gate that ends early leaves no results of an earlier run."""
        self.write(Failure(mechanism, epsilon, "the gate ended before anything was decided"))
        try:
            yield
        except UserError as error:
            self.write(Failure(mechanism, epsilon, str(error)))
            raise


def lines(decision: Decision) -> list[str]:
    """Return the verdict, a line per kind of limit (the deciding limit first), error probability and assumptions."""
    verdict, first = decision.verdict, decision.verdict.attacks[0]
    deployed = verdict.scope.of == DEPLOYMENT
    within = "a deployment with these answers that keeps its limits" if deployed else "a mechanism within its limits"
    alone = f"{within} is called beyond with probability {decision.errors.alpha:g} at most"
    if deployed:
        alone += "; for other answers under the same law this probability is unknown"
    passes = verdict.status.passes
    if passes and any(judged.measure == "identifiers" for judged in verdict.attacks):
        alone += "; identifiers in a spelling that only a reader recognises are not counted"
    joined = [judged.evidence.scale.joined for judged in verdict.attacks if judged.measure == "attribute"]
    if passes and joined:
        alone += f"; {beyond_joined(max(joined))}"
    return [
        f"{_headline(verdict.status)}: {decision.name}, {verdict.trials:,} rewrites, {_names(verdict)}",
        *(_kind(kind, verdict.status) for kind in _by_kind(verdict)),
        alone if by_law(first) and not first.unanswered else f"{_detectable(decision, first)}; {alone}",
        *verdict.answers.sentences,
        *verdict.scope.sentences(passes),
    ]


def _headline(status: Status) -> str:
    """Return PASSED with the status, or the status in capitals."""
    return f"PASSED, {status}" if status.passes else status.upper()


def beyond_joined(attributes: int) -> str:
    """Return a sentence on the combinations of attributes that the gate does not cover."""
    return f"a combination of {attributes + 1} attributes (their exclusive or) is not covered"


def _detectable(decision: Decision, first: Judged) -> str:
    """Return a sentence on the strength of the decision.

    After a pass, it gives the probability that the pass is wrong. Otherwise, and for a tail, it gives the smallest
    figure that these trials would have shown to exceed the limit.
    """
    if first.status.passes and first.measure != "delta_at_4":
        passing = (
            "a deployment with these answers that" if decision.verdict.scope.of == DEPLOYMENT else "a mechanism that"
        )
        missed = "falls below" if first.limit is not None and first.limit.at_least else "exceeds"
        return f"{passing} {missed} the limit passes with probability {decision.errors.beta:g} at most"
    if first.unanswered:
        return "nothing passes while answers are missing, because a missing answer looks private"
    if first.turned:
        return "this attack is worse than chance, so nothing passed; if its score is a distance, change its sign"
    least = decision.least_loss(first)
    power = f"with probability {1 - decision.errors.beta:g}"
    if first.measure == "delta_at_4":
        share = f"{100 * decision.missed(first):.2g} % of trials"
        if not math.isfinite(least):
            return f"no delta at 4 nats would have been found {power} if confident guesses are wrong in {share}"
        condition = f"would have been found {power} if confident guesses are wrong in at most {share}"
        return f"{amount(first, least)} or more {condition}"
    if math.isfinite(least):
        said = f"{amount(first, least)} or more would have been found {power}"
    elif first.limit is None:
        said = f"no limit applies to {first.attack}, so it decides nothing"
    elif isinstance(first.evidence.data, _COUNTED) and not first.limit.at_least:
        said = f"{NOT_TESTABLE}: too few rewrites"
    elif first.measure == "claim" and first.row["least_p_value"] > decision.level:
        said = f"{NOT_TESTABLE}: right guesses in all {first.trials:,} trials would not refute this claim"
    else:
        said = f"a mechanism beyond the limit passes with probability {decision.errors.beta:g} at most"
    if first.status is Status.OPEN and isinstance(first.evidence.data, AtLeast):
        said += "; trials of one case give no upper bound, because another case may be worse"
    if first.status is Status.OPEN and first.measure == "loss" and first.limit is not None:
        needed = fewest_rewrites(first.limit.allowed, decision.candidates, decision.errors)
        limit = f"{allowed_guesses(first.limit.allowed)} of 100 guesses ({allowed_nats(first.limit.allowed)})"
        if needed is not None and needed <= decision.verdict.trials:
            said += f"; the loss is so near {limit} that only more rewrites can decide (--budget)"
        else:
            many = f"more than {MANY:,}" if needed is None else f"at least {_two_digits(needed):,}"
            said += f"; to show fewer than {limit} takes {many} rewrites (--budget)"
    return said


def result(outcome: Decision | Failure) -> Result:
    """Return the decision as data."""
    if isinstance(outcome, Failure):
        return Result(
            mechanism=outcome.mechanism,
            epsilon=outcome.epsilon,
            passed=False,
            status=None,
            rewrites=0,
            attacks=[],
            error=outcome.error,
        )
    rows = [
        Row(
            attack=attack.attack,
            measure=attack.measure,
            misses=attack.misses if attack.measure == "delta_at_4" else None,
            status=attack.status,
            trials=attack.trials,
            successes=right(attack),
            shape=attack.shape,
            partly=attack.row.get("partly"),
            point=for_json(attack.point),
            limit=None if attack.limit is None else attack.limit.allowed,
            at_least=attack.limit is not None and attack.limit.at_least,
            source=source(attack),
            of_baseline=attack.limit is not None and attack.limit.of_baseline,
            least_found=least if math.isfinite(least := outcome.least_loss(attack)) else None,
            **dict(zip(_PRECISION, attack.row.get("precision") or [None] * len(_PRECISION), strict=True)),
        )
        for attack in outcome.verdict.attacks
    ]
    verdict = outcome.verdict
    return Result(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        passed=verdict.status.passes,
        status=verdict.status,
        rewrites=verdict.trials,
        attacks=rows,
        answers=Counts(missing=verdict.answers.missing, rewrites=verdict.answers.rewrites, **verdict.answers.columns),
        memory=None if verdict.scope.memory is None else verdict.scope.memory.kind,
        probabilities_of=verdict.scope.of,
        query_access=verdict.scope.query_access,
    )


def schema() -> dict[str, Any]:
    """Return the JSON schema of `result`."""
    return Result.model_json_schema(by_alias=True)


def as_json(outcome: Decision | Failure) -> str:
    """Return `result` as JSON."""
    return result(outcome).model_dump_json(indent=1, by_alias=True) + "\n"


def markdown(outcome: Decision | Failure) -> str:
    """Return the outcome as Markdown for a comment on a pull request."""
    if isinstance(outcome, Failure):
        return f"### ERROR: {outcome.name}\n\n{outcome.error}\n"
    head, *rest = lines(outcome)
    table = [
        "| judged | right, of trials | at that rate, nats (tail: delta; identifiers: share; similarity: mean) "
        "| allowed | |",
        "|---|---:|---:|---:|---|",
    ]
    table += [
        f"| {attack.attack} | {counted(attack)} | {number(attack.point)} | {allowed(attack)} | {attack.status} |"
        for attack in outcome.verdict.attacks
    ]
    return "\n".join([f"### {head}", "", *table, "", *rest, ""])


def _colour(status: Status) -> str:
    return "good" if status.passes else "bad" if status is Status.BEYOND else "open"


def html(outcome: Decision | Failure, seconds: float = 0.0) -> str:
    """Return the outcome as an HTML page.

    The page has the verdict, the facts of the run, a row per limit, and the reasons. seconds: the duration.
    """
    if isinstance(outcome, Failure):
        said = [sheet.Paragraph("ERROR: nothing was decided.", "bad"), sheet.Paragraph(outcome.error)]
        return sheet.page(f"Gate: {outcome.name}", said)
    head, *rest = lines(outcome)
    rows = [
        [
            judged.status,
            judged.attack,
            on_scale(judged),
            counted(judged),
            number(judged.point),
            allowed(judged),
            _share(judged.row.get("precision")),
        ]
        for judged in outcome.verdict.attacks
    ]
    heads = ["", "judged", "what an attacker learns", "right, or survived", "at that rate", "allowed", "masked rightly"]
    statuses = [_colour(judged.status) for judged in outcome.verdict.attacks]
    facts = outcome.facts | {"duration": _duration(seconds)}
    parts: list[sheet.Block] = [
        sheet.Paragraph(head, _colour(outcome.verdict.status)),
        sheet.Paragraph(" · ".join(f"{name}: {value}" for name, value in facts.items()), "note"),
        sheet.Grid(heads, rows, statuses),
        *(sheet.Paragraph(line) for line in rest),
        sheet.Paragraph(
            "By chance 50 of 100 guesses between two texts are right. Losses are also given in nats; the tail "
            "(delta_at_4) is a probability, identifiers are a share, similarity is a mean, and a claim is 1 if it is "
            "violated. A pass holds for the attacks and texts of this run; it never means private.",
            "note",
        ),
    ]
    return sheet.page(f"Gate: {outcome.name}", parts)


def _share(precision: Precision | None) -> str:
    """Return the share of masked runs of words that touch an identifier."""
    return "" if precision is None or precision[1] is None else f"{precision[1]:.0%}"


def junit(outcome: Decision | Failure, seconds: float = 0.0) -> str:
    """Return JUnit XML: a test case per attack, with its result in words; open cases are skipped.

    seconds: the duration, a property of the suite. For a decision, further properties are the numbers of texts and
    rewrites, the budget and the seed.
    """
    time = f"{seconds:.3f}"
    if isinstance(outcome, Failure):
        suite = ElementTree.Element(
            "testsuite", name="epsilometer gate", tests="1", failures="0", errors="1", time=time
        )
        _add_properties(suite, {"duration": _duration(seconds)})
        case = ElementTree.SubElement(suite, "testcase", classname=outcome.name, name="gate")
        ElementTree.SubElement(case, "error", message=outcome.error)
    else:
        attacks = outcome.verdict.attacks
        failures = sum(attack.status is Status.BEYOND for attack in attacks)
        skipped = sum(not attack.status.passes for attack in attacks) - failures
        suite = ElementTree.Element(
            "testsuite",
            name="epsilometer gate",
            tests=str(len(attacks)),
            failures=str(failures),
            skipped=str(skipped),
            time=time,
        )
        _add_properties(suite, outcome.facts | {"duration": _duration(seconds)})
        for attack in attacks:
            case = ElementTree.SubElement(suite, "testcase", classname=outcome.name, name=attack.attack)
            if attack.status is Status.BEYOND:
                ElementTree.SubElement(case, "failure", message=f"{attack.status}: {seen(attack)}")
            elif not attack.status.passes:
                ElementTree.SubElement(case, "skipped", message=seen(attack))
            else:
                said = ElementTree.SubElement(case, "system-out")
                said.text = f"{attack.status}: {seen(attack)}"
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _add_properties(suite: ElementTree.Element, facts: Mapping[str, str]) -> None:
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in facts.items():
        ElementTree.SubElement(properties, "property", name=name, value=value)


def _duration(seconds: float) -> str:
    """Return a duration: `61.0 s`."""
    return f"{seconds:.1f} s"


def sarif(outcome: Decision | Failure, file: str) -> str:
    """Return SARIF 2.1.0. file: the file to which findings are attached, such as the mechanism's."""
    attacks = [] if isinstance(outcome, Failure) else outcome.verdict.attacks
    findings = [
        {
            "ruleId": f"epsilometer/{attack.attack}",
            "kind": "pass" if attack.status.passes else "fail" if attack.status is Status.BEYOND else "open",
            # SARIF allows no other level for these kinds.
            "level": "error" if attack.status is Status.BEYOND else "none",
            "message": {"text": f"{outcome.name}: {attack.status}: {seen(attack)}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": file}}}],
        }
        for attack in attacks
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not isinstance(outcome, Failure)}
    if isinstance(outcome, Failure):
        said = {"level": "error", "message": {"text": f"{outcome.name}: {outcome.error}"}}
        invocation["toolExecutionNotifications"] = [said]
    driver = {"name": "epsilometer", "rules": [{"id": f"epsilometer/{attack.attack}"} for attack in attacks]}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": findings}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _two_digits(count: int) -> int:
    unit = 10 ** max(0, len(str(count)) - 2)
    return -(-count // unit) * unit


def _names(verdict: Verdict) -> str:
    attacks = [judged.attack for judged in verdict.attacks if judged.measure in _PLAYED]
    shapes = Counter(
        judged.attack.removesuffix(f", {judged.shape}") for judged in verdict.attacks if judged.measure not in _PLAYED
    )
    kinds = [f"{name} in {count} shapes" if count > 1 else name for name, count in shapes.items()]
    return "; ".join([*(["attacks " + ", ".join(attacks)] if attacks else []), *kinds])


def _by_kind(verdict: Verdict) -> list[list[Judged]]:
    """Return the results in groups: one per measure, and one per kind of identifier."""
    kinds: dict[tuple[str, str], list[Judged]] = {}
    for judged in verdict.attacks:
        name = judged.attack.removesuffix(f", {judged.shape}") if judged.measure == "identifiers" else ""
        kinds.setdefault((judged.measure, name), []).append(judged)
    return list(kinds.values())


def _kind(kind: Sequence[Judged], status: Status) -> str:
    """Return a line on a group: its first result, and other results with its failing status. status: the verdict's."""
    first, *others = kind
    alike = [] if first.status.passes else [other for other in others if other.status is first.status]
    return "; ".join(
        [
            seen(first),
            *([first.status] if first.status is not status else []),
            *([f"also {first.status}: {', '.join(other.shape or other.attack for other in alike)}"] if alike else []),
        ]
    )
