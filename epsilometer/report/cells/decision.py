"""The first part of the page: the answer on release, by budget, read from the table of decisions alone.

Each data set has one answer (`answers`). Sentences, the matrix and the next steps are made from answers and from the
rows of `DECISIONS` alone, so they cannot contradict each other. Controls are decided on like all mechanisms, but no
sentence names them, because they must not be used. Losses are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import VIOLATED
from epsilometer.auditing.decisions.decide import ALL
from epsilometer.auditing.decisions.limits import ATTRIBUTE, IDENTIFIERS, LOSS, Limits
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.evidence.status import Status
from epsilometer.auditing.schemas import DECISIONS
from epsilometer.cells.tables import decisions_path
from epsilometer.core.rounding import DOWN, UP, beside
from epsilometer.report.cells import average, known_loss
from epsilometer.report.cells.results import TextResults
from epsilometer.report.cells.use import FIXED, MEASURE, Uses, uses
from epsilometer.report.section import NEXT, Section
from epsilometer.report.table import NONE, Table, by_budget
from epsilometer.report.wording import (
    at_budget,
    at_budgets,
    budget,
    confidence,
    inflected,
    listed,
    of_100,
    plural,
    share,
)
from epsilometer.text.language import LEAST, function_words

Budgets = Sequence[tuple[str, float | None]]  # mechanisms with their budgets

_NAMES = {"delta_at_4": "δ"}
_SHOWN = 3  # steps that are shown


@dataclass(frozen=True)
class Answer:
    """The decision on a data set: the budgets of mechanisms other than controls, by their decision.

    hardly: mechanisms that hardly read its texts, which are never recommended. uses: by cell, as `use.uses` returns
    them. rows: the rows `all` of `DECISIONS`, without controls.
    """

    dataset: str
    by: Mapping[str, Budgets]
    hardly: Sequence[str] = ()
    uses: Uses = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()

    @property
    def audited(self) -> Budgets:
        """All audited budgets."""
        return [cell for cells in self.by.values() for cell in cells]

    @property
    def usable(self) -> Budgets:
        """The budgets within the limits, of mechanisms that read the texts."""
        return [cell for cell in self.by.get(Status.WITHIN, ()) if cell[0] not in self.hardly]

    def keeping(self, more: bool | None) -> Budgets:
        """The cells of `usable` that keep more than a fixed sentence (True), no more (False), or were not measured."""
        return [cell for cell in self.usable if self.uses.get((self.dataset, *cell)) is more]

    def worst(self, cells: Budgets) -> Mapping[str, Any] | None:
        """Return the row of the cell with the worst pair."""
        return average.worst([row for row in self.rows if (row["mechanism"], row["epsilon"]) in cells])


def section(results: TextResults) -> Section:
    """The answer, a matrix per data set, and the next steps."""
    table = decisions(results)
    every, limits = answers(table, results.unread, uses(results)), results.params.decide.limits
    alarms = [*faults(results), *violated(results)]
    first = [("Alarm", alarm) for alarm in alarms] + [(each.dataset, sentence(each)) for each in every]
    return Section(
        id="decision",
        link="Decision",
        heading="May it be released?",
        words=[
            limits_sentence(limits, results),
            query_access(results.estimates),
            *[said for each in every for said in behind_averages(each)],
            *left_out(table),
            *not_tested(table),
            *[said for each in every for said in hardly_reading(each)],
            *languages(results),
            *[f"**Next.** {step}" for step in steps(table, every)[1:]],
        ],
        blocks=[*matrices(table), *reasons(table, results.params.audit.alpha)],
        first_screen=[*first, *[(NEXT, step) for step in steps(table, every)[:1]]],
        alarm=bool(alarms),
    )


def decisions(results: TextResults) -> pl.DataFrame:
    """The decisions, schema `DECISIONS`, sorted."""
    table = results.table(decisions_path(), DECISIONS)
    return table.sort("dataset", "control", "mechanism", "epsilon", maintain_order=True)


def answers(table: pl.DataFrame, unread: Mapping[tuple[str, str], Any], keeps: Uses) -> list[Answer]:
    """Return the answer of each data set.

    table: schema `DECISIONS`; unread: as `TextResults.unread` returns it; keeps: as `use.uses` returns it.
    """
    every = []
    for (dataset,), rows in table.filter(limit=ALL).group_by("dataset", maintain_order=True):
        by: dict[str, list[tuple[str, float | None]]] = {}
        cells = rows.filter(~pl.col("control")).to_dicts()
        for row in cells:
            by.setdefault(row["decision"], []).append((row["mechanism"], row["epsilon"]))
        hardly = [name for of, name in unread if of == dataset]
        every.append(Answer(str(dataset), by, hardly, uses=keeps, rows=cells))
    return every


def sentence(answer: Answer) -> str:
    """Return the answer of a data set: release or not, and the mechanisms and budgets to release by.

    A mechanism is recommended only if it is shown to keep more than one fixed sentence.
    """
    if not answer.audited:
        return "No mechanism but controls was audited."
    more, no_more, unmeasured = (answer.keeping(use) for use in (True, False, None))
    if more:
        return (
            f"Yes, by {at_budgets(more, answer.audited)}: within every limit that was tested "
            f"({average.briefly(answer.worst(more))}), and keeps more than {FIXED}.{_rest(answer)}"
        )
    if unmeasured:
        return (
            f"Nothing is recommended. {at_budgets(unmeasured, answer.audited)}: within every limit that was tested "
            f"({average.briefly(answer.worst(unmeasured))}); its use was not measured.{_rest(answer)}"
        )
    if no_more:
        are = inflected(len(_names(no_more)), "is", "are")
        return (
            f"Nothing within the limits keeps more than {FIXED}: {at_budgets(no_more, answer.audited)} {are} within "
            f"({average.briefly(answer.worst(no_more))}).{_rest(answer)}"
        )
    if unexceeded := answer.by.get(Status.NOT_EXCEEDED):
        return (
            f"Not shown, though no attack exceeded the limits for {at_budgets(unexceeded, answer.audited)} "
            f"({average.briefly(answer.worst(unexceeded))}).{_rest(answer)}"
        )
    if unshown := answer.by.get(Status.OPEN):
        return f"Not yet shown within: {at_budgets(unshown, answer.audited)}.{_rest(answer)}"
    if unread := _unread(answer):
        return f"No. {unread}{_rest(answer)}"
    return f"No: every budget of {listed(_names(answer.audited))} is beyond the limits."


def _unread(answer: Answer) -> str:
    """Name the mechanisms that are within but hardly read the texts."""
    cells = answer.by.get(Status.WITHIN, ())
    if not cells:
        return ""
    of = len(_names(cells))
    are, read = inflected(of, "is", "are"), inflected(of, "reads", "read")
    return f"{at_budgets(cells, answer.audited)} {are} within, but hardly {read} the texts."


def behind_averages(answer: Answer) -> list[str]:
    """Return what the averages of the cells within hide."""
    if not answer.usable:
        return []
    return [f"**Behind the average** on {answer.dataset}. {average.hidden(answer.worst(answer.usable))}"]


def hardly_reading(answer: Answer) -> list[str]:
    """Name the mechanisms that are within but hardly read the texts, if the first screen names others."""
    others = not answer.usable and (answer.by.get(Status.NOT_EXCEEDED) or answer.by.get(Status.OPEN))
    return [f"On {answer.dataset} {unread}"] if others and (unread := _unread(answer)) else []


def _rest(answer: Answer) -> str:
    beyond = answer.by.get(Status.BEYOND, ())
    if not beyond:
        return ""
    every = f"{len(beyond)} of {len(answer.audited)} budgets"
    return f" {every} {inflected(len(beyond), 'exceeds', 'exceed')} a limit."


def steps(table: pl.DataFrame, every: Sequence[Answer]) -> list[str]:
    """The next steps, with names."""
    said = []
    usable = [each for each in every if each.keeping(True)]
    released = [f"{each.dataset} by {at_budget(*_largest(each.keeping(True)))}" for each in usable]
    if released:
        several = any(len(_names(each.keeping(True))) > 1 for each in usable)
        first = ", and of several mechanisms within the first by name" if several else ""
        again = "decide again when the mechanism, its model or the texts change"
        said.append(f"Release {listed(released)} (the largest budget within{first}); {again}.")
    if unmeasured := [each.dataset for each in every if each.keeping(None) and not each.keeping(True)]:
        said.append(
            f"Measure what rewrites of {listed(unmeasured)} keep beside one fixed sentence: give the data set `sets` "
            "and a public part in params.yaml."
        )
    nowhere = [each for each in every if each.audited and not each.usable]
    if poor := [each.dataset for each in every if each.usable and not each.keeping(True) and not each.keeping(None)]:
        said.append(
            f"Release nothing of {listed(poor)}: one fixed sentence for every text keeps as much (by {MEASURE}). Try "
            "another mechanism."
        )
    if nowhere:
        smallest = {name for each in nowhere for name, epsilon in each.audited if epsilon is not None}
        of = f" of {listed([each.dataset for each in nowhere])}" if len(nowhere) < len(every) else ""
        public = "" if "exemplars" in smallest else "`exemplars`, or "
        said.append(
            f"Release nothing{of} yet. Audit {public}smaller budgets of {listed(sorted(smallest))}; "
            "`epsilometer calibrate` finds them."
            if smallest
            else f"Release nothing{of} yet. What was audited has no budget to lower, so try another mechanism."
        )
    return [*said, *settling(table)]


def settling(table: pl.DataFrame) -> list[str]:
    """Return what would settle the open cells, the nearest first."""
    cells = table.filter(~pl.col("control"), limit=ALL, decision=Status.OPEN).select("dataset", "mechanism", "epsilon")
    rows = table.filter(pl.col("allowed").is_not_null(), decision=Status.OPEN).join(
        cells, on=["dataset", "mechanism", "epsilon"], nulls_equal=True, maintain_order="left"
    )
    nearest = rows.sort("needed", nulls_last=True, maintain_order=True).drop_nulls("settles")
    said: dict[tuple[str, str], list[str]] = {}
    for row in nearest.unique(["mechanism", "dataset", "limit"], keep="first", maintain_order=True).to_dicts():
        count = "" if row["needed"] is None else f"{row['needed']:,} "
        said.setdefault((f"{limit_name(row['limit'])} on {row['dataset']}", f"{count}{row['settles']}"), []).append(
            row["mechanism"]
        )
    parts = [f"{limit} under {listed(mechanisms)} by {what}" for (limit, what), mechanisms in said.items()]
    return [f"Settle what is open: {listed(parts[:_SHOWN], _SHOWN)}."] if parts else []


def limits_sentence(limits: Limits, results: TextResults) -> str:
    """State the limits, and the pairs of texts that they cover."""
    length = [name for name in results.params.datasets if results.params.match(name) == "words"]
    pairs = "any other"
    if length:
        elsewhere = "" if len(length) == len(results.params.datasets) else ", of any length elsewhere"
        pairs = f"another of equal length on {listed(length)}{elsewhere}"
    right = of_100(success_bound(limits.loss, 2))
    return (
        f"**Limits.** {limits.loss:g} {inflected(limits.loss, 'nat', 'nats')}: an adversary who guesses between two "
        f"texts is right in at most {right} guesses. δ at 4 nats: {limits.delta_at_4:g}. Identifiers of a kind: "
        f"{100 * limits.identifiers:g} %. "
        f"An attribute: {limits.attribute:g} nats. A person has one text, which is compared as a whole with {pairs}. "
        "**Within** rests on upper ends alone, which attacks never show, and holds for an adversary who sees one "
        "rewrite and compares texts; linking with other data of a person was not tested."
    )


def query_access(estimates: pl.DataFrame) -> str:
    """Say if an adversary with query access guessed, and what follows for codes."""
    if "shadow" in estimates["attack"].to_list():
        return (
            "**Codes.** `shadow` rewrote the candidates itself and learnt from that: a low loss means that our learner "
            "finds no code, not that there is none."
        )
    return (
        "**Codes.** No adversary with query access guessed (`shadow`), so a code that only repeated rewriting reveals "
        "was not looked for."
    )


def left_out(table: pl.DataFrame) -> list[str]:
    """Name the limits that do not apply, and the data sets."""
    rows = (
        table.filter(decision=Status.NOT_APPLICABLE)
        .group_by("limit", "why", maintain_order=True)
        .agg(pl.col("dataset").unique().sort())
    )
    parts = [f"{row['limit']} on {listed(row['dataset'])} ({row['why']})" for row in rows.to_dicts()]
    return [f"**Left out**, as they do not apply: {'; '.join(parts)}."] if parts else []


def not_tested(table: pl.DataFrame) -> list[str]:
    """Return a paragraph that names the labels missing from `decide.attributes`."""
    rows = (
        table.filter(limit=ATTRIBUTE, decision=Status.OPEN).unique(["dataset", "why"], maintain_order=True).to_dicts()
    )
    parts = [f"{row['why']} on {row['dataset']}" for row in rows]
    return [f"**Not tested**: {'; '.join(parts)} (`decide.attributes` names what must be hidden)."] if parts else []


def languages(results: TextResults) -> list[str]:
    """Name the data sets that are not in English, and the effect on figures by English models."""
    parts = []
    for name in results.params.datasets:
        english = function_words(results.audited(name)["text"])
        if english is not None and english < LEAST:
            parts.append(f"{name}, of whose words {share(english)} are English function words")
    if not parts:
        return []
    return [
        f"**Not English**, or no sentences: {listed(parts)}. The embedded encoder and all else that is English alone "
        "see little of such texts, so that a low loss by `embedding` and a high cosine say little."
    ]


def matrices(table: pl.DataFrame) -> Iterator[Table]:
    """A table per data set: a row per mechanism, controls last, its budgets from the smallest to the largest."""
    return by_budget(table, in_a_cell)


def in_a_cell(cell: pl.DataFrame) -> str:
    """A decision in a few words: the budget, the bound that decides, and for *within* what an average hides."""
    whole = cell.filter(limit=ALL).row(0, named=True)
    word = {Status.NOT_EXCEEDED: "not exceeded"}.get(whole["decision"], whole["decision"])
    at = "" if whole["epsilon"] is None else f"ε {budget(whole['epsilon'])}: "
    decisive = deciding(cell)
    if decisive is None:
        why = f" ({whole['why']})" if _by_smaller(cell) else ""
        return f"{at}{word}{why}"
    hides = f"; {average.briefly(whole)}" if whole["decision"] in (Status.WITHIN, Status.NOT_EXCEEDED) else ""
    return f"{at}{word} ({figure(decisive)}{hides})"


def deciding(cell: pl.DataFrame) -> dict[str, Any] | None:
    """The row of the limit that decides: farthest beyond it, least within it, or the first that is open."""
    word = cell.filter(limit=ALL)["decision"].item()
    rows = cell.filter(pl.col("limit") != ALL, decision=word).to_dicts()
    if word == Status.BEYOND:
        return max(rows, key=lambda row: row["low"] / row["allowed"])
    if word == Status.WITHIN:
        return max(rows, key=lambda row: row["high"] / row["allowed"])
    return next((row for row in rows if row["high"] is not None or row["low"] is not None), None)


def _by_smaller(cell: pl.DataFrame) -> bool:
    """True if a cell is open because of a smaller budget that is not within, although none of its limits is open."""
    return cell.filter(pl.col("limit") != ATTRIBUTE, decision=Status.OPEN)["limit"].to_list() == [ALL]


def figure(row: Mapping[str, Any]) -> str:
    """The bound that decides, never rounded across its limit: `loss ≥ 1.31`, `δ ≤ 0.002`."""
    upper = row["decision"] == Status.WITHIN or (row["decision"] == Status.OPEN and row["high"] is not None)
    value, sign, way = (row["high"], "≤", UP) if upper else (row["low"], "≥", DOWN)
    return f"{limit_name(row['limit'])} {sign} {value_beside(value, row, way)}"


def value_beside(value: float, row: Mapping[str, Any], way: str) -> str:
    """A bound with the digits of its limit; shares of identifiers in percent."""
    if row["limit"].startswith(IDENTIFIERS):
        return f"{beside(100 * value, 100 * row['allowed'], way, 1)} %"
    return beside(value, row["allowed"], way, 2 if row["allowed"] >= 0.1 else 3)


def limit_name(limit: str) -> str:
    """`loss`, `δ`, `names`, `gender`."""
    kind, _, of = limit.partition(": ")
    return plural(of) if kind == IDENTIFIERS and of else _NAMES.get(limit, of or limit)


def reasons(table: pl.DataFrame, alpha: float) -> Iterator[Table]:
    """A table per data set: the decision of each cell, and the bounds of each limit's figure. alpha: of the audit."""
    for (dataset,), rows in table.group_by("dataset", maintain_order=True):
        shown = []
        for (mechanism, epsilon), cell in rows.group_by("mechanism", "epsilon", maintain_order=True):
            whole = cell.filter(limit=ALL).row(0, named=True)
            row = {"mechanism": str(mechanism), "epsilon": budget(epsilon), "decision": whole["decision"]}
            for each in cell.filter(pl.col("limit") != ALL, pl.col("allowed").is_not_null()).to_dicts():
                row[limit_name(each["limit"])] = between(each)
            shown.append(row | average.columns(whole))
        yield Table(
            f"Decisions on {dataset}",
            f"Each figure lies between these ends, each at {confidence(alpha, 2)}, not all at once; a dash where "
            "nothing is known.",
            shown,
            folded=True,
        )


def between(row: Mapping[str, Any]) -> str:
    """`0.31 to 0.94`, or `≥ 1.20` without an upper bound."""
    low, high = (
        None if value is None or (math.isinf(value) and way == UP) else value_beside(value, row, way)
        for value, way in ((row["low"], DOWN), (row["high"], UP))
    )
    if low is None:
        return NONE if high is None else f"≤ {high}"
    return f"≥ {low}" if high is None else low if low == high else f"{low} to {high}"


def faults(results: TextResults) -> list[str]:
    """Reasons to trust no figure: a known loss that the audit missed, a control that breaks its claim."""
    check = known_loss.fault(results.table(known_loss.PATH, known_loss.INSTRUMENT))
    controls = results.estimates.filter("control")["mechanism"].unique().to_list()
    broken = results.verdicts.filter(pl.col("mechanism").is_in(controls), verdict=VIOLATED).select(
        "mechanism", "epsilon"
    )
    faulty = (
        f"A control breaks its claim, which is known to hold: {at_budgets(broken.rows(), [])}. Trust no figure below."
    )
    return [*([check] if check else []), *([faulty] if len(broken) else [])]


def violated(results: TextResults) -> list[str]:
    """Name the mechanisms whose claims are refuted."""
    controls = results.estimates.filter("control")["mechanism"].unique().to_list()
    broken = results.verdicts.filter(~pl.col("mechanism").is_in(controls), verdict=VIOLATED).select(
        "mechanism", "epsilon"
    )
    if broken.is_empty():
        return []
    return [f"Distrust the claim of {at_budgets(broken.rows(), [])}: it or the code is wrong."]


def chosen(table: pl.DataFrame, unread: Container[tuple[str, str]] = ()) -> dict[str, tuple[str, float | None]]:
    """The cell of each data set that a reader would use: the largest budget within, else the one that loses least.

    unread: data sets with mechanisms that hardly read them, which are used only if there is nothing else.
    """
    cells = {}
    for (dataset,), rows in table.filter(~pl.col("control")).group_by("dataset", maintain_order=True):
        losses = {
            (m, e): low for m, e, low in rows.filter(limit=LOSS).select("mechanism", "epsilon", "low").iter_rows()
        }
        losses = {cell: low for cell, low in losses.items() if (dataset, cell[0]) not in unread} or losses
        within = rows.filter(limit=ALL, decision=Status.WITHIN).select("mechanism", "epsilon").rows()
        within = [cell for cell in within if cell in losses]
        cells[str(dataset)] = _largest(within) if within else min(losses, key=lambda cell: losses[cell])
    return cells


def _largest(cells: Budgets) -> tuple[str, float | None]:
    """The first mechanism by name, at its largest budget."""
    name = min(_names(cells))
    return max((cell for cell in cells if cell[0] == name), key=lambda cell: cell[1] or 0.0)


def _names(cells: Budgets) -> list[str]:
    return sorted({name for name, _ in cells})
