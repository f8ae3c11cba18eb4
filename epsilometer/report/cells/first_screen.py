"""The first part of the page: whether each data set may be released, by which mechanism and budget.

Each data set has one answer (`answers`): yes or no, the reason, and the next step (`next_steps`). Sentences, bars and
matrix use only answers and rows of `DECISIONS`, so they cannot contradict each other. Controls have decisions like all
mechanisms, but no sentence lists them, because they must not be used. Losses are shown as right guesses of 100 between
two texts, with the nats in brackets.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl
from markupsafe import Markup

from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.decisions.limits import ATTRIBUTE, DELTA, IDENTIFIERS, LOSS, Limits
from epsilometer.auditing.evidence.evidence import By
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.schemas import DECISIONS
from epsilometer.cells.tables import decisions_path
from epsilometer.core.rounding import DOWN, NEAREST, UP, beside
from epsilometer.report.bars import Bar, Bars
from epsilometer.report.cells import average, known_loss
from epsilometer.report.cells.answers import Answer, Budgets, Counts, answers, largest, names_of
from epsilometer.report.cells.average import SURELY
from epsilometer.report.cells.datasets import audited
from epsilometer.report.cells.limit_names import limit_name
from epsilometer.report.cells.next_steps import step
from epsilometer.report.cells.possible import pure_claims
from epsilometer.report.cells.results import TextResults
from epsilometer.report.cells.survivors import counts
from epsilometer.report.cells.use import UNKNOWN, Kept, Uses, uses
from epsilometer.report.section import Section
from epsilometer.report.table import NONE, Table, anchor, by_budget
from epsilometer.report.wording import (
    FEW,
    at_budget,
    at_budgets,
    budget,
    confidence,
    guesses,
    guesses_beside,
    inflected,
    listed,
    share,
    survived,
)
from epsilometer.text.language import LEAST, function_words

ANYWAY = "no text could have shown the opposite"


def section(results: TextResults) -> Section:
    """Return the answer, bars, a matrix and a table of reasons for each data set."""
    table, keeps, counted = decisions(results), uses(results), counts(results)
    every = answers(table, results.unread, keeps)
    alarms = [*faults(results), *violated(results)]
    of_cells = audited(results, (cell.dataset for cell in results.params.cells.values()))
    first = [("Alarm", alarm) for alarm in alarms] + [("Audited", of_cells)]
    for each in every:
        first += [
            (each.dataset, said) for said in (f"**{answer(each)}** {reason(each)}", f"**Next:** {step(each, table)}")
        ]
    return Section(
        id="decision",
        link="Decision",
        heading="May it be released?",
        blocks=[
            *pictures(results, table, every),
            *matrices(table, keeps, counted),
            *reasons(table, keeps, counted, pure_claims(results), alpha=results.params.audit.alpha),
        ],
        first_screen=first,
        alarm=bool(alarms),
    )


def basis(results: TextResults) -> Section:
    """Return the basis of the answers: the limits, the worst pairs behind the averages, and what was not tested."""
    table = decisions(results)
    every = answers(table, results.unread, uses(results))
    return Section(
        id="basis",
        link="Basis",
        heading="The basis of the answers",
        words=[
            limits_sentence(results.params.decide.limits, results),
            *[said for each in every for said in behind_averages(each)],
            query_access(results.estimates),
            *left_out(table),
            *not_tested(table),
            *[said for each in every for said in hardly_reading(each)],
            *languages(results),
        ],
    )


def _answered(each: Answer) -> str:
    return f"**{answer(each)}** {reason(each)}"


def decisions(results: TextResults) -> pl.DataFrame:
    """Return the decisions (schema `DECISIONS`), sorted by data set, with controls last."""
    table = results.table(decisions_path(), DECISIONS)
    return table.sort("dataset", "control", "mechanism", "epsilon", maintain_order=True)


def answer(each: Answer) -> str:
    """Return the answer of a data set in a few words: yes or no, and the mechanisms and budgets to use.

    A mechanism is recommended only if its rewrites are shown to be more useful than one fixed sentence.
    """
    if more := each.keeping(True):
        return f"Yes, by {at_budgets(more, each.audited)}."
    if each.keeping(None):
        return "Nothing is recommended."
    if each.usable or not each.audited:
        return "No."
    if each.by.get(Status.NOT_EXCEEDED):
        return "Not shown."
    return "Not yet." if each.by.get(Status.OPEN) else "No."


def reason(each: Answer) -> str:
    """Return the reason of an answer, in one sentence."""
    if not each.audited:
        return "No mechanism but controls was audited."
    more, no_more, unmeasured = (each.keeping(use) for use in (True, False, None))
    if more:
        at = largest(more)
        use = each.use(at)
        return f"With {at_budget(*at)} {_bounded(each, at)}; {use.briefly}."
    if unmeasured:
        cells = at_budgets(unmeasured, each.audited)
        return f"With {cells} {_bounded(each, largest(unmeasured))}, but the utility of the rewrites was not measured."
    if no_more:
        at = max(no_more, key=lambda cell: each.use(cell).worth or 0.0)
        return (
            f"With {at_budgets(no_more, each.audited)} {_bounded(each, at)}, but one fixed sentence is as useful: "
            f"at best, {each.use(at).briefly}."
        )
    if unexceeded := each.by.get(Status.NOT_EXCEEDED):
        cells = at_budgets(unexceeded, each.audited)
        return f"No attack of this audit exceeded the limits with {cells}, but another attack may."
    if unshown := each.by.get(Status.OPEN):
        return f"It is open whether {at_budgets(unshown, each.audited)} {_keeps(unshown)} the limits."
    if unread := _unread(each):
        return unread
    row = each.least()
    least = f": with {at_budget(row['mechanism'], row['epsilon'])} {exceeded(row)}" if row else ""
    every = "Every budget of " if any(epsilon is not None for _, epsilon in each.audited) else ""
    exceed = "exceeds" if every else inflected(len(names_of(each.audited)), "exceeds", "exceed")
    return f"{every}{listed(names_of(each.audited))} {exceed} a limit{least}."


def _keeps(cells: Budgets) -> str:
    return inflected(len(cells), "keeps", "keep")


def _bounded(each: Answer, cell: tuple[str, float | None]) -> str:
    """Return the upper bound on an attacker's right guesses in a cell that keeps its limits."""
    row = each.limit(cell, LOSS)
    return "every limit is kept" if row is None else f"an attacker is right in {_at_most(row)}"


def _at_most(row: Mapping[str, Any]) -> str:
    """Return `at most 71.0 of 100 guesses between two texts (0.90 nats; 50 is chance, 73.1 is allowed)`."""
    high = row["high"]
    nats = beside(high, row["allowed"], UP)
    allowed = guesses(row["allowed"], NEAREST)
    return (
        f"at most {guesses_beside(high, row['allowed'], UP)} of 100 guesses between two texts ({nats} nats; 50 is "
        f"chance, {allowed:g} is allowed)"
    )


def exceeded(row: Mapping[str, Any]) -> str:
    """Describe the excess over a limit. row: the row of the deciding limit."""
    if row["limit"] == LOSS:
        low, allowed = guesses_beside(row["low"], row["allowed"], DOWN), guesses(row["allowed"], NEAREST)
        return f"an attacker is right in at least {low} of 100 guesses between two texts, where {allowed:g} are allowed"
    return figure(row)


def _unread(each: Answer) -> str:
    """Return a sentence on the mechanisms that keep the limits but hardly read the texts; may be empty."""
    cells = each.by.get(Status.WITHIN, ())
    if not cells:
        return ""
    of = len(names_of(cells))
    keep, read = inflected(of, "keeps", "keep"), inflected(of, "reads", "read")
    return f"{at_budgets(cells, each.audited)} {keep} the limits, but hardly {read} the texts."


def behind_averages(answer: Answer) -> list[str]:
    """Return a sentence on the worst pair behind the averages of the cells that keep the limits."""
    if not answer.usable:
        return []
    return [f"**Behind the average** on {answer.dataset}. {average.hidden(answer.worst(answer.usable))}"]


def hardly_reading(answer: Answer) -> list[str]:
    """Return the sentence of `_unread` if no cell is usable, and `reason` is about *open* or *not exceeded* cells."""
    others = not answer.usable and (answer.by.get(Status.NOT_EXCEEDED) or answer.by.get(Status.OPEN))
    return [f"On {answer.dataset} {unread}"] if others and (unread := _unread(answer)) else []


def limits_sentence(limits: Limits, results: TextResults) -> str:
    """Return a paragraph on the limits, and the pairs of texts that they cover."""
    length = [name for name in results.params.datasets if results.params.match(name) == "words"]
    pairs = "any other"
    if length:
        elsewhere = "" if len(length) == len(results.params.datasets) else ", of any length elsewhere"
        pairs = f"another of equal length on {listed(length)}{elsewhere}"
    return (
        f"**Limits.** An attacker who guesses between two texts may be right in {_allowed(limits.loss)}; 50 is chance. "
        f"Rare outputs, which give a text away in more than {SURELY:g} of 100 guesses: {100 * limits.delta_at_4:g} of "
        f"100 (δ at 4 nats: {limits.delta_at_4:g}). Identifiers of a kind that survive: {100 * limits.identifiers:g} "
        f"%. An attribute: {_allowed(limits.attribute)}. They are for a person with one text, compared as a whole "
        f"with {pairs}. "
        "Only an upper bound shows that a limit is kept; attacks never give one. A kept limit covers every adversary "
        "who sees one rewrite and compares texts; linking with other data of a person was not tested."
    )


def _allowed(loss: float) -> str:
    return f"{guesses(loss, NEAREST):g} of 100 guesses ({loss:g} {inflected(loss, 'nat', 'nats')})"


def query_access(estimates: pl.DataFrame) -> str:
    """Return sentences on adversaries with query access. Only they could read hidden codes in rewrites."""
    if "shadow" in estimates["attack"].to_list():
        return (
            "**Codes.** The attack `shadow` had the candidates rewritten and learnt from the results. A low loss "
            "means that it found no hidden code in rewrites, not that none exists."
        )
    return (
        "**Codes.** No adversary with query access guessed (`shadow`), so hidden codes, which only repeated rewriting "
        "reveals, were not looked for."
    )


def left_out(table: pl.DataFrame) -> list[str]:
    """Return a paragraph on the limits that do not apply, with their data sets."""
    rows = (
        table.filter(decision=Status.NOT_APPLICABLE)
        .group_by("limit", "why", maintain_order=True)
        .agg(pl.col("dataset").unique().sort())
    )
    parts = [f"{row['limit']} on {listed(row['dataset'])} ({row['why']})" for row in rows.to_dicts()]
    return [f"**Left out**, because they do not apply: {'; '.join(parts)}."] if parts else []


def not_tested(table: pl.DataFrame) -> list[str]:
    """Return a paragraph on the labels that `decide.attributes` lacks."""
    rows = (
        table.filter(limit=ATTRIBUTE, decision=Status.OPEN).unique(["dataset", "why"], maintain_order=True).to_dicts()
    )
    parts = [f"{row['why']} on {row['dataset']}" for row in rows]
    return (
        [f"**Not tested**: {'; '.join(parts)} (list labels that must be hidden under `decide.attributes`)."]
        if parts
        else []
    )


def languages(results: TextResults) -> list[str]:
    """Return a paragraph on data sets that are not in English, and the effect on figures by English models."""
    parts = []
    for name in results.params.datasets:
        english = function_words(results.audited(name)["text"])
        if english is not None and english < LEAST:
            parts.append(f"{name} (English function words: {share(english)})")
    if not parts:
        return []
    return [
        f"**Not English**, or no sentences: {listed(parts)}. The embedded encoder and other models of English "
        "understand "
        "little of such texts, so a low loss by `embedding` or a high cosine means little."
    ]


def pictures(results: TextResults, table: pl.DataFrame, every: Sequence[Answer]) -> Iterator[Bars]:
    """Yield bars per data set: one per mechanism, at the budget that a reader would choose, without controls."""
    for each in every:
        rows = []
        for name in names_of(each.audited):
            at = chosen(table.filter(dataset=each.dataset, mechanism=name))[each.dataset]
            loss = each.limit(at, LOSS)
            if loss is not None:
                rows.append(_bar(each, at, loss, results.means(name)))
        if rows:
            yield Bars(
                f"What an attacker learns from {each.dataset}",
                "Right guesses of 100 between two texts. Dark: up to the lower bound. Pale: up to the upper bound. "
                "Vertical line: the limit. Each mechanism is at its largest budget that keeps every limit or, if "
                "there is none, at its budget of smallest loss.",
                rows,
            )


def _bar(each: Answer, cell: tuple[str, float | None], loss: Mapping[str, Any], means: str) -> Bar:
    low = guesses_beside(max(loss["low"] or 0.0, 0.0), loss["allowed"], DOWN)
    high = (
        None if loss["high"] is None or math.isinf(loss["high"]) else guesses_beside(loss["high"], loss["allowed"], UP)
    )
    said = f"{low} to {high} of 100 guesses are right" if high else f"at least {low} of 100 guesses are right"
    word = next(word for word, cells in each.by.items() if cell in cells)
    others = "" if word != Status.BEYOND or loss["decision"] == Status.BEYOND else " · another limit is exceeded"
    return Bar(
        name=at_budget(*cell),
        means=means,
        status=word,
        low=float(low.replace(",", "")),
        high=None if high is None else float(high.replace(",", "")),
        said=f"{said}{others}",
        limit=guesses(loss["allowed"], NEAREST),
        use=each.use(cell).briefly,
    )


def matrices(table: pl.DataFrame, keeps: Uses, counted: Counts) -> Iterator[Table]:
    """Yield a table per data set: a row per mechanism, controls last, and in each row the budgets in ascending order.

    Each cell links to its row of `reasons`. keeps: from `use.uses`; counted: from `survivors.counts`.
    """

    def linked(cell: pl.DataFrame) -> str:
        dataset, mechanism, epsilon = cell.select("dataset", "mechanism", "epsilon").row(0)
        return Markup('<a href="#{}">{}</a>').format(
            anchor(dataset, mechanism, epsilon), in_a_cell(cell, keeps, counted)
        )

    return by_budget(table, linked)


def in_a_cell(cell: pl.DataFrame, keeps: Uses, counted: Counts) -> str:
    """Return a decision in a few words: the budget, the deciding bound and, unless a limit is exceeded, the utility."""
    whole = cell.filter(limit=ALL).row(0, named=True)
    word = {Status.NOT_EXCEEDED: "not exceeded"}.get(whole["decision"], whole["decision"])
    at = "" if whole["epsilon"] is None else f"ε {budget(whole['epsilon'])}: "
    decisive = deciding(cell)
    use = f"; {_of(whole, keeps).briefly}" if whole["decision"] in (Status.WITHIN, Status.NOT_EXCEEDED) else ""
    if decisive is None:
        why = f" ({whole['why']})" if _by_smaller(cell) else ""
        return f"{at}{word}{why}{use}"
    return f"{at}{word} ({figure(decisive, counted)}){use}"


def _of(row: Mapping[str, Any], keeps: Uses) -> Kept:
    return keeps.get(_cell(row), UNKNOWN)


def _cell(row: Mapping[str, Any]) -> tuple[str, str, float | None]:
    return row["dataset"], row["mechanism"], row["epsilon"]


def deciding(cell: pl.DataFrame) -> dict[str, Any] | None:
    """Return the row of the deciding limit: the most exceeded, the most nearly exceeded, or the first open limit."""
    word = cell.filter(limit=ALL)["decision"].item()
    rows = cell.filter(pl.col("limit") != ALL, decision=word).to_dicts()
    if word == Status.BEYOND:
        return max(rows, key=lambda row: row["low"] / row["allowed"])
    if word == Status.WITHIN:
        return max(rows, key=lambda row: row["high"] / row["allowed"])
    return next((row for row in rows if row["high"] is not None or row["low"] is not None), None)


def _by_smaller(cell: pl.DataFrame) -> bool:
    """Return True if a cell is open only because a smaller budget does not keep its limits."""
    return cell.filter(pl.col("limit") != ATTRIBUTE, decision=Status.OPEN)["limit"].to_list() == [ALL]


def figure(row: Mapping[str, Any], counted: Counts = MappingProxyType({})) -> str:
    """Return the deciding bound, never rounded across its limit.

    Examples: `at least 78.7 of 100`, `rare outputs at most 0.2 of 100`.
    """
    upper = row["decision"] == Status.WITHIN or (row["decision"] == Status.OPEN and row["high"] is not None)
    value, sign, way = (row["high"], "at most", UP) if upper else (row["low"], "at least", DOWN)
    name = "" if row["limit"] == LOSS else f"{limit_name(row['limit'])} "
    if (count := _counted(row, counted)) is not None:
        return f"{name}{count}"
    return f"{name}{sign} {value_beside(value, row, way)}"


def _counted(row: Mapping[str, Any], counted: Counts) -> str | None:
    """Return the counts of a kind of identifier if it has fewer than FEW cases; otherwise None."""
    count = counted.get((*_cell(row), row["limit"]))
    return None if count is None or count[1] >= FEW else survived(*count, row["high"])


def value_beside(value: float, row: Mapping[str, Any], way: str) -> str:
    """Return a bound, never rounded across its limit: guesses of 100, outputs of 100, or identifiers in percent."""
    if row["limit"].startswith(IDENTIFIERS):
        return f"{beside(100 * value, 100 * row['allowed'], way, 1)} %"
    if row["limit"] == DELTA:
        return f"{beside(100 * value, 100 * row['allowed'], way, 1)} of 100"
    return f"{guesses_beside(value, row['allowed'], way)} of 100"


def reasons(
    table: pl.DataFrame, keeps: Uses, counted: Counts, claims: Mapping[Any, float], *, alpha: float
) -> Iterator[Table]:
    """Yield a table per data set: the decision of each cell, its utility, and the bounds of each limit's figure.

    claims: from `possible.pure_claims`. alpha: the audit's alpha.
    """
    for (dataset,), rows in table.group_by("dataset", maintain_order=True):
        shown, anchors = [], []
        for (mechanism, epsilon), cell in rows.group_by("mechanism", "epsilon", maintain_order=True):
            whole = cell.filter(limit=ALL).row(0, named=True)
            row = {"mechanism": str(mechanism), "epsilon": budget(epsilon), "decision": whole["decision"]}
            row["kept"] = _of(whole, keeps).briefly
            limits = cell.filter(pl.col("limit") != ALL, pl.col("allowed").is_not_null()).to_dicts()
            for each in limits:
                row[limit_name(each["limit"])] = between(each, counted)
            row |= average.columns(whole) | {"whatever the texts": otherwise(limits, claims.get(_cell(whole)))}
            shown.append(row)
            anchors.append(anchor(str(dataset), str(mechanism), epsilon))
        yield Table(
            f"Decisions on {dataset}",
            f"Lower and upper bound of each figure, at {confidence(alpha, 2)} for each figure and not for all at "
            "once. A "
            "dash means that no bound is known. Nats are in brackets.",
            shown,
            folded=True,
            anchors=anchors,
        )


def otherwise(limits: Sequence[Mapping[str, Any]], claimed: float | None) -> str:
    """Describe the limits that are kept for any texts, and those that are kept for any random draws.

    The limit on the loss is kept for any texts if the claimed loss between any two texts is at most this limit. The
    limit on rare outputs is kept for any texts if this claimed loss is at most 4 nats. A limit is kept for any random
    draws if all possible releases were counted. limits: the rows of a cell. claimed: the claimed loss between any two
    texts, in nats; None without such a claim.
    """
    within = [each for each in limits if each["decision"] == Status.WITHIN and each["limit"] != ALL]
    by_claim = [
        limit_name(each["limit"])
        for each in within
        if claimed is not None and claimed <= {LOSS: each["allowed"], DELTA: 4.0}.get(each["limit"], -math.inf)
    ]
    counted = [limit_name(each["limit"]) for each in within if each["high_by"] == By.RELEASES]
    said = [f"{listed(by_claim)}: by the claim, {ANYWAY}"] if by_claim else []
    if counted:
        said.append(f"{listed(counted)}: no draw could have shown the opposite, as all possible releases were counted")
    return "; ".join(said)


def between(row: Mapping[str, Any], counted: Counts = MappingProxyType({})) -> str:
    """Return `65.0 to 71.4 of 100 (0.62 to 0.92)`, or `at least 78.7 of 100 (1.31)` without an upper bound."""
    if (count := _counted(row, counted)) is not None:
        return count
    low, high = (
        None if value is None or (math.isinf(value) and way == UP) else value_beside(value, row, way)
        for value, way in ((row["low"], DOWN), (row["high"], UP))
    )
    nats = ""
    if row["limit"] == LOSS or row["limit"].startswith(ATTRIBUTE):
        ends = [
            beside(value, row["allowed"], way)
            for value, end, way in ((row["low"], low, DOWN), (row["high"], high, UP))
            if end is not None
        ]
        nats = f" ({' to '.join(dict.fromkeys(ends))})"
    if low is None:
        return NONE if high is None else f"at most {high}{nats}"
    if high is None:
        return f"at least {low}{nats}"
    return f"{low}{nats}" if low == high else f"{_number(low)} to {high}{nats}"


def _number(value: str) -> str:
    return value.removesuffix(" of 100").removesuffix(" %")


def faults(results: TextResults) -> list[str]:
    """Return reasons to trust no figure: a known loss that the audit missed, or a violated claim of a control."""
    check = known_loss.fault(results.table(known_loss.PATH, known_loss.INSTRUMENT))
    controls = results.estimates.filter("control")["mechanism"].unique().to_list()
    broken = results.verdicts.filter(pl.col("mechanism").is_in(controls), verdict=VIOLATED).select(
        "mechanism", "epsilon"
    )
    faulty = f"The audit refutes a claim that is known to hold: {at_budgets(broken.rows(), [])}. Trust no figure below."
    return [*([check] if check else []), *([faulty] if len(broken) else [])]


def violated(results: TextResults) -> list[str]:
    """Return a sentence on the mechanisms whose claims are refuted."""
    controls = results.estimates.filter("control")["mechanism"].unique().to_list()
    broken = results.verdicts.filter(~pl.col("mechanism").is_in(controls), verdict=VIOLATED).select(
        "mechanism", "epsilon"
    )
    if broken.is_empty():
        return []
    return [f"Distrust the claim of {at_budgets(broken.rows(), [])}: the claim or the code is wrong."]


def chosen(table: pl.DataFrame, unread: Container[tuple[str, str]] = ()) -> dict[str, tuple[str, float | None]]:
    """Return the cell of each data set that a reader would use.

    That cell has the largest budget within the limits. If no budget is within the limits, the cell has the smallest
    loss. unread: pairs of a data set and a mechanism that hardly reads it. Such a mechanism is chosen only if there is
    no other.
    """
    cells = {}
    for (dataset,), rows in table.filter(~pl.col("control")).group_by("dataset", maintain_order=True):
        losses = {
            (m, e): low for m, e, low in rows.filter(limit=LOSS).select("mechanism", "epsilon", "low").iter_rows()
        }
        losses = {cell: low for cell, low in losses.items() if (dataset, cell[0]) not in unread} or losses
        within = rows.filter(limit=ALL, decision=Status.WITHIN).select("mechanism", "epsilon").rows()
        within = [cell for cell in within if cell in losses]
        cells[str(dataset)] = largest(within) if within else min(losses, key=lambda cell: losses[cell])
    return cells
