"""The top of the page, for who reads nothing else: what leaks, which claims hold, what was not tested, what to do.

Every sentence is about mechanisms that somebody might use. Controls, whose loss is known, are never counted or advised
for or against; one that breaks its claim is a fault of the audit, and said first. Losses are in nats.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_CHECKED, NOT_REFUTED, NOT_TESTABLE, VIOLATED
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.exact_loss.rows import ALL
from epsilometer.auditing.results.diagnostics import STRONGEST_INSIDE
from epsilometer.auditing.schemas import OUTPUTS
from epsilometer.report.rows import (
    CELL,
    TAIL_ALLOWED,
    comparable,
    hardly_read,
    strongest,
)
from epsilometer.report.section import Section
from epsilometer.report.wording import (
    at_budget,
    at_budgets,
    at_most,
    budget,
    inflected,
    listed,
    odds,
    tail_words,
)
from epsilometer.studies.texts.report import known_loss
from epsilometer.studies.texts.report.results import TextResults

OFTEN = 0.95  # the share of right guesses from which on a leak is named: 19 of 20
_FEW = 50  # trials below which nothing is said about those with candidates of equal length


@dataclass(frozen=True)
class Summary:
    """What is said first.

    alarm: whether a claim is violated or the known-loss check fails; parts: topics with their sentences; headlines: the
    same in a sentence a topic, for the first screen.
    """

    alarm: bool
    parts: list[tuple[str, list[str]]]
    headlines: list[tuple[str, str]]


def section(results: TextResults) -> Section:
    """What was found, in sentences."""
    estimates, params = results.estimates, results.params
    overview = summary(
        estimates,
        results.verdicts,
        params.utility.target,
        results.table(known_loss.PATH, known_loss.INSTRUMENT),
        outputs=results.table("data/outputs.parquet", OUTPUTS),
        exact=results.exact,
        compared=comparable(estimates, results.exact, params.audit.alpha),
    )
    return Section(
        id="summary",
        link="Findings",
        heading="What this audit shows",
        words=[f"**{topic}.** {' '.join(sentences)}" for topic, sentences in overview.parts],
        first_screen=overview.headlines,
        alarm=overview.alarm,
    )


def summary(
    estimates: pl.DataFrame,
    verdicts: pl.DataFrame,
    target: float,
    instrument: pl.DataFrame,
    outputs: pl.DataFrame,
    exact: pl.DataFrame,
    compared: pl.DataFrame,
) -> Summary:
    """Sum an audit up.

    estimates: schema `ESTIMATES`; verdicts: as `verdicts.overall` gives them; target: the loss at which to choose;
    instrument: schema `known_loss.INSTRUMENT`; outputs: schema `OUTPUTS`; exact: schema `EXACT`; compared: as
    `rows.comparable` gives it.
    """
    best, inside = strongest(estimates), strongest(estimates, STRONGEST_INSIDE)
    check = known_loss.fault(instrument)
    used = best.filter(~pl.col("control"))
    controls = set(estimates.filter("control")["mechanism"])
    theirs = pl.col("mechanism").is_in(list(controls))
    faults = verdicts.filter(theirs, verdict=VIOLATED).select("mechanism", "epsilon").rows()
    claimed = _of_audit(verdicts.filter(~theirs), estimates)
    hardly = hardly_read(outputs.filter(~theirs))
    first, bounded = [*([check] if check else []), *_faults(faults)], _bounded(used, exact)
    parts = [
        ("Look here first", first),
        ("What leaks", leaks(used, inside.filter(~pl.col("control")), hardly)),
        ("Claims", claims(claimed)),
        ("Not tested", [*_unchecked(instrument), *untested(claimed, estimates.filter(~pl.col("control")))]),
        ("What to do", advice(bounded, compared, claimed, target, hardly=hardly)),
    ]
    return Summary(
        alarm=bool(check or faults) or VIOLATED in claimed["verdict"],
        parts=[(heading, sentences) for heading, sentences in parts if sentences],
        headlines=[
            *[("Look here first", sentence) for sentence in first],
            *headlines(bounded, compared, claimed, target, hardly=hardly),
        ],
    )


def headlines(
    best: pl.DataFrame,
    compared: pl.DataFrame,
    verdicts: pl.DataFrame,
    target: float,
    *,
    hardly: Container[str],
) -> list[tuple[str, str]]:
    """What leaks, what to do, and which claims hold, in a sentence each; without a mechanism but controls none."""
    if best.is_empty():
        return [("What leaks", "No mechanism but controls was audited.")]
    often = best.filter(pl.col("success_rate") >= OFTEN)["mechanism"].unique().sort().to_list()
    names = f"Among {max(best['candidates'].to_list())} texts an adversary names the source of a rewrite"
    met = _within(best, target, hardly)
    alike = _within(compared.filter(pl.col("mechanism").is_in(best["mechanism"].to_list())), target, hardly)
    limit = f"{target:g} {inflected(target, 'nat', 'nats')}"
    tested = verdicts.filter(pl.col("verdict").is_in([VIOLATED, NOT_REFUTED]))
    broken = tested.filter(verdict=VIOLATED)
    claims = f"{broken.height} of {tested.height} claims tested {inflected(broken.height, 'is', 'are')} violated"
    whose = (
        f": {listed(broken['mechanism'].unique().sort().to_list(), 4)}"
        if len(broken)
        else ", which proves none of them"
    )
    return [
        (
            "What leaks",
            f"{names} at least {odds(OFTEN)} times, at some budget of {listed(often)}."
            if often
            else f"{names} less than {odds(OFTEN)} times at every budget.",
        ),
        (
            "What to do",
            f"Under every attack here {listed([*met.values()], 3)} stayed within {limit}."
            if met
            else f"Between texts of equal length {listed([*alike.values()], 3)} stayed within {limit}; else none did."
            if alike
            else f"Use smaller budgets: none here stayed within {limit}.",
        ),
        ("Claims", f"{claims}{whose}." if len(tested) else "No claim could be tested."),
    ]


def _of_audit(verdicts: pl.DataFrame, estimates: pl.DataFrame) -> pl.DataFrame:
    """Verdicts on claims at the budgets of the audit, and on those that are broken at others, which `by` then says."""
    audited = estimates.select("mechanism", "epsilon", audited=True).unique()
    both = verdicts.join(audited, on=["mechanism", "epsilon"], how="left", nulls_equal=True, maintain_order="left")
    broken = both.filter(pl.col("audited").is_not_null() | (pl.col("verdict") == VIOLATED))
    elsewhere = pl.when(pl.col("audited").is_null()).then(pl.col("by") + ", at a budget that was not audited")
    return broken.with_columns(by=elsewhere.otherwise("by")).drop("audited")


def _bounded(best: pl.DataFrame, exact: pl.DataFrame) -> pl.DataFrame:
    """The strongest attacks, with the exact average of what is released as upper end where that is larger."""
    of_law = exact.filter("released", pairs=ALL).select(*CELL, "average_high")
    both = best.join(of_law, on=CELL, how="left", nulls_equal=True, maintain_order="left")
    return both.with_columns(upper=pl.max_horizontal("upper", "average_high")).drop("average_high")


def _unchecked(instrument: pl.DataFrame) -> list[str]:
    return [] if len(instrument) else ["The audit was not checked against a known loss in this run."]


def _faults(cells: Sequence[tuple[str, float]]) -> list[str]:
    if not cells:
        return []
    return [f"A control breaks its claim, which is known to hold: {at_budgets(cells, [])}. Trust no figure below."]


def leaks(best: pl.DataFrame, inside: pl.DataFrame, hardly: Mapping[str, list[str]]) -> list[str]:
    """Against which mechanisms a guesser is nearly always right, against which nothing was found, what is inside.

    hardly: as `hardly_read` gives it; no mechanism is said to show no leak without it.
    """
    if best.is_empty():
        return ["No mechanism but controls was audited."]
    k = int(best["candidates"].max())  # type: ignore[arg-type]
    audited = best.select("mechanism", "epsilon").rows()
    often, nothing = [], []
    for (mechanism,), rows in best.sort("mechanism", "epsilon").group_by("mechanism", maintain_order=True):
        worst = rows.group_by("epsilon").agg(pl.max("success_rate", "loss")).sort("epsilon", descending=True)
        above = [(str(mechanism), row["epsilon"]) for row in worst.to_dicts() if row["success_rate"] >= OFTEN]
        if above:
            often.append(at_budgets(above, audited))
        nothing += [(str(mechanism), row["epsilon"]) for row in worst.to_dicts() if row["loss"] == 0]
    beginning = f"Given what is released and {k} texts, one of them its source, an adversary names the source"
    sentences = [
        f"{beginning} at least {odds(OFTEN)} times (by chance: {odds(1 / k)}) against {listed(often)}."
        if often
        else f"{beginning} less than {odds(OFTEN)} times (by chance: {odds(1 / k)}) at every ε audited."
    ]
    if nothing:
        sentences.append(
            f"No attack found evidence of a leak against {at_budgets(nothing, audited)}; that does not prove privacy."
        )
    if hardly:
        named = [f"{mechanism} ({listed(what)})" for mechanism, what in hardly.items()]
        sentences.append(f"What is not read cannot leak, so a low loss says little of {listed(named, len(named))}.")
    return [*sentences, *_by_length(best), *_inside(best, inside)]


def _gone(best: pl.DataFrame) -> pl.DataFrame:
    """Rows of `best` that prove a loss, but none among candidates of equal length."""
    return best.filter(
        pl.col("equal_trials") >= _FEW,
        pl.col("equal_trials") < pl.col("trials"),
        pl.col("loss") > 0,
        pl.col("equal_loss") == 0,
    )


def _by_length(best: pl.DataFrame) -> list[str]:
    """Where all that is proven is gone among candidates of equal length."""
    gone = _gone(best)
    if gone.is_empty():
        return []
    budgets = at_budgets(gone.select("mechanism", "epsilon").rows(), best.select("mechanism", "epsilon").rows())
    few = gone["equal_trials"].unique().sort()
    count = " to ".join(dict.fromkeys(f"{n:,}" for n in (few[0], few[-1])))
    return [
        f"On {listed(gone['dataset'].unique().sort().to_list())} length may be all that leaks of {budgets}: in the "
        f"{count} trials whose texts have equally many words the same attack proves nothing."
    ]


def _inside(best: pl.DataFrame, inside: pl.DataFrame) -> list[str]:
    """Whose unreleased parts give away more than the released ones could have, by both intervals."""
    outside = best.select(*CELL, outer="upper", right="success_rate")
    more = inside.join(outside, on=CELL, nulls_equal=True).filter(~pl.col("released"), pl.col("loss") > pl.col("outer"))
    if more.is_empty():
        return []
    most = more.with_columns(gap=pl.col("success_rate") - pl.col("right")).sort("gap", "mechanism", descending=True)
    rows = most.unique("mechanism", keep="first", maintain_order=True).to_dicts()
    shown = [
        f"{at_budget(row['mechanism'], row['epsilon'])} ({_seen(row['sees'])}: {odds(row['success_rate'])}; "
        f"what is released: {odds(row['right'])})"
        for row in rows
    ]
    return [f"What is not released must stay so. With it an adversary is right far more often: {listed(shown, 3)}."]


def _seen(sees: str) -> str:
    return "what a provider gets" if sees == "provider" else sees


def claims(verdicts: pl.DataFrame) -> list[str]:
    """How many claims were tested, and which of them are violated; verdicts: of no control."""
    claimed = verdicts.filter(pl.col("verdict") != NO_CLAIM)
    tested = claimed.filter(pl.col("verdict").is_in([VIOLATED, NOT_REFUTED]))
    broken = tested.filter(verdict=VIOLATED)
    if claimed.is_empty():
        return ["No mechanism of this audit makes a claim."]
    if tested.is_empty():
        return ["No claim could be tested; nothing here speaks for or against any of them."]
    if broken.is_empty():
        held = tested.filter(verdict=NOT_REFUTED).select("mechanism", "epsilon").rows()
        them = inflected(len(tested), "the one claim that could be tested", "any of the claims that could be tested")
        audited = claimed.select("mechanism", "epsilon").rows()
        it = inflected(len(tested), "it", "them")
        return [f"Nothing refutes {them}, which is no proof of {it}: {at_budgets(held, audited)}."]
    named = [
        f"{at_budget(row['mechanism'], row['epsilon'])} ({row['by']})"
        for row in broken.sort("mechanism", "epsilon").to_dicts()
    ]
    are = inflected(len(broken), "is", "are")
    return [f"{len(broken)} of the {len(tested)} claims tested {are} violated: {listed(named)}."]


def untested(verdicts: pl.DataFrame, estimates: pl.DataFrame) -> list[str]:
    """Which claims no outcome could have refuted, and which were not looked at."""
    claimed = verdicts.filter(pl.col("verdict") != NO_CLAIM).select("mechanism", "epsilon").rows()
    beyond = verdicts.filter(verdict=NOT_TESTABLE)
    sentences = []
    if len(beyond):
        counts = estimates["trials"].unique().sort().to_list()
        trials = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
        cells = beyond.select("mechanism", "epsilon").rows()
        sentences.append(
            f"{len(beyond)} of {len(claimed)} claims are too large to be tested with {trials} trials: an adversary "
            f"who is right every time would not refute them ({at_budgets(cells, claimed)})."
        )
    for (reason,), rows in verdicts.filter(verdict=NOT_CHECKED).group_by("reason", maintain_order=True):
        named = rows.select("mechanism", "epsilon").rows()
        sentences.append(
            f"Not checked: {at_budgets(named, claimed)}. {_sentence(str(reason or 'Nothing was compared'))}"
        )
    return sentences


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def advice(
    best: pl.DataFrame,
    compared: pl.DataFrame,
    verdicts: pl.DataFrame,
    target: float,
    *,
    hardly: Mapping[str, list[str]],
) -> list[str]:
    """What follows: claims not to rely on, budgets within the target, adversaries that are missing.

    best: of trials with candidates of any length; compared: the losses by which mechanisms are compared, between texts
    of equal length where exact losses are known. hardly: as `hardly_read` gives it; what these mechanisms leak is not
    known, so none is said to be within the target.
    """
    sentences = []
    broken = verdicts.filter(verdict=VIOLATED)["mechanism"].unique().sort().to_list()
    if broken:
        sentences.append(
            f"Do not rely on the claim of {listed(broken)}: the claim or the code is wrong, and the section on claims "
            "shows where."
        )
    if best.is_empty():
        return sentences
    met, alike = _within(best, target, hardly), _within(compared, target, hardly)
    missed = [name for name in best["mechanism"].unique().sort() if name not in _within(best, target)]
    equal = [name for name in missed if name in alike]
    fixed = [name for name in missed if name not in equal and best.filter(mechanism=name)["epsilon"].null_count()]
    beyond = [name for name in missed if name not in (*equal, *fixed)]
    most = at_most(success_bound(target, int(best["candidates"].min())))  # type: ignore[arg-type]
    limit = f"{target:g} {inflected(target, 'nat', 'nats')} (an adversary right at most {most})"
    if met:
        sentences.append(
            f"Under every attack and on every data set here, {listed([*met.values()])} stayed within {limit}. Other "
            "texts and better attacks may show more."
        )
    if equal:
        sentences.append(
            f"Between texts of equal length alone, {listed([alike[name] for name in equal])} stayed within {limit} on "
            "every data set; where lengths differ no audited budget of theirs did."
        )
    sentences.extend(_tail(compared, target, [*met, *equal]))
    if fixed:
        sentences.append(f"{listed(fixed)} went beyond {limit}, and there is no budget to lower.")
    if beyond:
        whose = listed(beyond) if met or equal else "any mechanism"
        sentences.append(
            f"No audited budget of {whose} stayed within {limit} on every data set: use smaller ones; `epsilometer "
            f"calibrate --target {target:g}` looks for them."
        )
    sentences.extend(_beyond_length(best, beyond))
    if hardly:
        sentences.append(
            f"Audit {listed(list(hardly))} again with vectors of the texts' language, a larger limit or shorter texts: "
            "what leaks of texts that are read is not known."
        )
    spared = best.filter(~pl.col("optimal"), pl.col("point").is_finite())["mechanism"].unique().sort().to_list()
    if spared:
        they = inflected(len(spared), "it", "they")
        sentences.append(f"No optimal adversary attacks {listed(spared)}: {they} may leak more than is seen here.")
    return sentences


def _within(losses: pl.DataFrame, target: float, but: Container[str] = ()) -> dict[str, str]:
    """Each mechanism that stays within the target on every data set, with the budgets up to which it does.

    Beyond the first budget above the target nothing is named, even where a curve falls again. but: left out.
    """
    within = {}
    for (name,), rows in losses.sort("mechanism", "epsilon").group_by("mechanism", maintain_order=True):
        upper = rows.group_by("epsilon").agg(pl.max("upper")).sort("epsilon")
        met = upper.filter((pl.col("upper") <= target).cum_min())["epsilon"]
        if len(met) and name not in but:
            within[str(name)] = str(name) if met[-1] is None else f"{name} up to ε = {budget(float(met[-1]))}"
    return within


def _tail(compared: pl.DataFrame, target: float, names: Sequence[str]) -> list[str]:
    """Of which of these mechanisms an average loss within the target hides a tail, or may."""
    within = compared.filter(pl.col("mechanism").is_in(names), pl.col("upper") <= target)
    worst = within.group_by("mechanism").agg(pl.max("tail"), open=pl.col("tail").is_null().any()).sort("mechanism")
    heavy = worst.filter(~pl.col("open"), pl.col("tail") > TAIL_ALLOWED).select("mechanism", "tail").rows()
    unbounded = worst.filter("open")["mechanism"].to_list()
    tails = [f"{tail_words(0.0, tail)} with {name}" for name, tail in heavy]
    parts = [f"delta at 4 nats is up to {listed(tails)}"] if tails else []
    parts += [f"no law bounds delta at 4 nats for {listed(unbounded)}"] if unbounded else []
    return [f"An average hides what a few outputs give away: {' and '.join(parts)}."] if parts else []


def _beyond_length(best: pl.DataFrame, beyond: Sequence[str]) -> list[str]:
    """Whom a smaller budget may not help, for what is left at the smallest is the length of a text."""
    smallest = best.filter(pl.col("epsilon") == pl.col("epsilon").min().over("mechanism"))
    left = _gone(smallest).filter(pl.col("mechanism").is_in(beyond))["mechanism"].unique().sort().to_list()
    if not left:
        return []
    return [
        f"A smaller ε may not help {listed(left)}: at the smallest one length may be all that leaks, and what keeps "
        "the number of words shows it at any ε. `--match words` searches between texts of equal length."
    ]
