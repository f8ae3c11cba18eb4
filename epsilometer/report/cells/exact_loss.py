"""The exact loss of mechanisms with a known law, compared with the sampled loss, and its meaning for a person."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import polars as pl

from epsilometer.auditing.claims.verdicts import NOT_REFUTED, VIOLATED, with_overall
from epsilometer.auditing.estimation.posteriors import DEPARTS
from epsilometer.auditing.estimation.successes import estimate, success_bound
from epsilometer.auditing.exact_loss.risk import largest_success_of_pairs, largest_success_over_all
from epsilometer.auditing.exact_loss.rows import ALL, EQUAL
from epsilometer.auditing.results.diagnostics import STRONGEST, STRONGEST_INSIDE
from epsilometer.report.cells.results import TextResults
from epsilometer.report.rows import CELL, by_equal_length, exactly, followed
from epsilometer.report.section import Section
from epsilometer.report.table import Table, records
from epsilometer.report.wording import (
    at_budgets,
    budget,
    inflected,
    listed,
    of_100,
    proved,
    share,
    tail_words,
    unbounded,
)

RISKS = [*CELL, "pairs", "candidates", "chance", "everywhere"]  # upper bounds of a probability
CANDIDATES = (2, 10, 1000)  # numbers of candidates, in addition to all texts of a data set
_NEAR = 0.25  # nats; a sampled loss nearer to the ceiling than this counts as at the ceiling


def section(results: TextResults) -> Section | None:
    """Return average, quantiles and worst pair by every known law, with their meaning in words; None without a law."""
    estimates, exact = results.estimates, with_overall(results.exact, results.verdicts)
    if exact.is_empty():
        return None
    control = pl.col("mechanism").is_in(estimates.filter("control")["mechanism"].unique().to_list())
    curves = followed(results.exact_curves.filter(~control), estimates)
    explained = (
        "The exact loss is the loss to the best possible adversary. It is computed from a mechanism's law without "
        "trials, so it has no ceiling. Average: over the compared pairs, weighted as trials sample them. 95 %: the "
        "loss that 95 % of the pairs do not exceed. Worst pair: the largest loss of a pair. Relative ε: the largest "
        "loss of any single output. δ at 4 nats: the probability of outputs that a loss of 4 nats does not account "
        "for."
    )
    said = [
        *ceiling_sentence(exact, estimates),
        *length_sentence(exact.filter(~control)),
        *departed_sentence(exact, estimates),
    ]
    return Section(
        id="exact",
        link="Exact loss",
        heading="The exact loss",
        words=[explained, *said],
        folded=True,
        blocks=[
            *exact_losses(exact.filter(~control), estimates),
            *risk_tables(risks(curves, results.exact, texts(results), results.params.trials.candidates)),
        ],
    )


def exact_losses(exact: pl.DataFrame, estimates: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per data set: losses by law and by trials, and the order of cells by each.

    exact: with a column `overall`, the verdict on each claim.
    """
    columns = (
        "mechanism: {mechanism} | epsilon: {epsilon:budget} | sees: {sees} | sampled: {sampled:number} | "
        "average: {exactly} | 95 %: {q95:number} | worst pair: {worst:number} | "
        "relative epsilon: {relative_epsilon:number} | delta at 4 nats: {tail} | rank sampled: {sampled_rank} | "
        "rank exact: {exact_rank} | rank by delta: {tail_rank} | method: {method} | claim: {overall} | "
        "sampled, all: {sampled_all:number} | average, all: {exactly_all}"
    )
    shown = rows(exact, estimates)
    for dataset in dict.fromkeys(row["dataset"] for row in shown):
        here = [row for row in shown if row["dataset"] == dataset]
        every = {(row["mechanism"], row["epsilon"]): row for row in here if row["pairs"] == ALL}
        cells = ranked([row for row in here if row["first"]])
        caption = (
            f"Losses between texts of equal length ({cells[0]['share']:.0%} of the compared pairs); the last two "
            "columns are over all compared pairs. The loss of a view that is not released, such as latents, bounds "
            f"the loss of the text. {order_sentence(cells)}"
        )
        table = [
            row
            | {
                "tail": tail_words(row["delta_at_4_low"] if row["released"] else None, row["delta_at_4"]),
                **{f"{name}_all": every[row["mechanism"], row["epsilon"]][name] for name in ("sampled", "exactly")},
            }
            for row in cells
        ]
        yield Table(f"Exact losses on {dataset}", caption.strip(), records(table, columns), off_page=True)


def rows(exact: pl.DataFrame, estimates: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row per cell and group of pairs, pairs of equal length first. first: True for a cell's first row.

    sampled: the loss that the strongest attack proves on trials of this group. If the law describes a released view,
    only attacks on released views count, otherwise all attacks. sampled_high: the upper bound of this loss. trials: the
    number of these trials. All three are None without such trials.
    """
    sampled = {
        (*(row[name] for name in CELL), row["attack"] == STRONGEST): row
        for row in estimates.filter(pl.col("attack").is_in([STRONGEST, STRONGEST_INSIDE])).to_dicts()
    }
    shown_rows, before = [], None
    for row in exact.sort(*CELL, pl.col("pairs") != EQUAL).to_dicts():
        cell = (row["dataset"], row["mechanism"], row["epsilon"])
        of_group = _sampled(sampled.get((*cell, row["released"])), equal=row["pairs"] == EQUAL)
        shown_rows.append({**row, **of_group, "first": cell != before, "exactly": exactly(row)})
        before = cell
    return shown_rows


def _sampled(best: Mapping[str, Any] | None, *, equal: bool) -> dict[str, Any]:
    """Return `sampled`, `sampled_high` and `trials` (`rows`). best: the strongest attack's row of `ESTIMATES`."""
    if best is None or (equal and not best["equal_trials"]):
        return {"sampled": None, "sampled_high": None, "trials": None}
    if not equal:
        return {"sampled": best["loss"], "sampled_high": best["upper"], "trials": best["trials"]}
    # The error of the strongest attack's interval, computed from the ceiling. The audit corrected this error for the
    # choice among several attacks.
    alpha = 2 * success_bound(best["ceiling"], best["candidates"]) ** best["trials"]
    high = math.inf
    if best["ceiling"] > 0:
        high = estimate(best["equal_successes"], best["equal_trials"], best["candidates"], min(alpha, 0.5)).upper
    return {"sampled": best["equal_loss"], "sampled_high": high, "trials": best["equal_trials"]}


def ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of one data set, one per cell, with `sampled_rank`, `exact_rank` and `tail_rank`.

    `tail_rank` is by delta at 4 nats. The largest value has rank 1, and equal values share a rank. Only laws of
    released views are ranked; other rows have None.
    """

    def rank(row: dict[str, Any], name: str) -> int | None:
        if not row["released"] or row["sampled"] is None:
            return None
        return 1 + sum(other[name] > row[name] for other in rows if other["released"] and other["sampled"] is not None)

    names = {"sampled_rank": "sampled", "exact_rank": "average", "tail_rank": "delta_at_4"}
    return [row | {name: rank(row, of) for name, of in names.items()} for row in rows]


def order_sentence(rows: list[dict[str, Any]]) -> str:
    """Count the pairs of ranked cells that exact losses separate or reverse.

    Intervals are compared, because points vary by chance.
    """
    both = [row for row in rows if row["sampled_rank"] is not None]
    pairs = [
        (_above(a, b, "sampled", "sampled_high"), _above(a, b, "all_low", "all_high")) for a, b in combinations(both, 2)
    ]
    parted = sum(sampled == 0 != exact for sampled, exact in pairs)
    turned = sum(sampled * exact < 0 for sampled, exact in pairs)
    if not pairs:
        return ""
    return (
        f"Of {len(pairs):,} pairs of cells, the exact loss orders {parted:,} whose sampled intervals overlap, and "
        f"reverses the sampled order of {turned:,}."
    )


def _above(a: Mapping[str, Any], b: Mapping[str, Any], low: str, high: str) -> int:
    """Return 1 if the interval of a is above the interval of b, -1 if it is below, else 0; a null end is unbounded."""
    ends = [(row[low] or 0.0, math.inf if row[high] is None else row[high]) for row in (a, b)]
    return int(ends[0][0] > ends[1][1]) - int(ends[1][0] > ends[0][1])


def ceiling_sentence(exact: pl.DataFrame, estimates: pl.DataFrame) -> list[str]:
    """Return the range of exact losses over the cells at the ceiling, where nearly every guess is right."""
    used = estimates.filter(~pl.col("control"), pl.col("ceiling") > 0, attack=STRONGEST)
    full = used.filter(pl.col("loss") >= pl.col("ceiling") - _NEAR).select(*CELL, "ceiling")
    losses = by_equal_length(exact.filter("released")).join(full, on=CELL, nulls_equal=True)
    if len(losses) < 2:
        return []
    averages = losses["average"].sort()
    return [
        f"{len(losses)} cells with a known law are at the ceiling of the trials "
        f"({proved(losses['ceiling'][0])} nats), which cannot separate them. Their exact average losses are "
        f"{unbounded(averages[0])} to {unbounded(averages[-1])} nats over the compared pairs."
    ]


def length_sentence(exact: pl.DataFrame) -> list[str]:
    """Return sentences on the data sets where length alone separates texts, and the share of pairs of equal length."""
    both = exact.filter("released").pivot("pairs", index=CELL, values=["relative_epsilon", "share"])
    columns = {f"relative_epsilon_{name}" for name in (ALL, EQUAL)}
    if not columns <= set(both.columns):
        return []
    gone = both.filter(
        pl.col(f"relative_epsilon_{ALL}").is_infinite(), pl.col(f"relative_epsilon_{EQUAL}").is_finite()
    ).sort(CELL)
    shares = gone.group_by("dataset", maintain_order=True).agg(
        names=pl.col("mechanism").unique().sort(), left=pl.first(f"share_{EQUAL}")
    )
    return [
        f"On {row['dataset']} {listed(row['names'])} {inflected(len(row['names']), 'reveals', 'reveal')} the length "
        f"of a text, so the loss between texts of different lengths is infinite; {share(row['left'])} of the compared "
        "pairs "
        "have equal lengths."
        for row in shares.to_dicts()
    ]


def departed_sentence(exact: pl.DataFrame, estimates: pl.DataFrame) -> list[str]:
    """Return a sentence on the mechanisms whose rewrites do not follow the law behind the exact loss."""
    cells = exact.select("mechanism", "epsilon").unique()
    departed = estimates.filter("departs").select("mechanism", "epsilon").unique()
    both = departed.join(cells, on=["mechanism", "epsilon"], nulls_equal=True).rows()
    if not both:
        return []
    return [
        f"The {DEPARTS} with {at_budgets(both, cells.rows())}: there the law and its exact loss do not describe the "
        "code."
    ]


def claims_sentence(exact: pl.DataFrame) -> list[str]:
    """Return a sentence on the claims that laws check between whole texts, and the violated claims; may be empty."""
    judged = exact.filter(pl.col("verdict").is_in([VIOLATED, NOT_REFUTED]))
    cells = judged.select("mechanism", "epsilon").unique().rows()
    broken = judged.filter(verdict=VIOLATED).select("mechanism", "epsilon").unique().rows()
    if not cells:
        return []
    were = inflected(len(cells), "claim was", "claims were")
    how = f"{len(cells)} {were} also checked without trials, by the exact loss between whole texts"
    if broken:
        return [f"{how}; it exceeds the claim of {at_budgets(broken, cells)}."]
    return [f"{how}; no compared pair of texts loses more than claimed."]


def texts(results: TextResults) -> dict[str, int]:
    """Return the number of texts of each data set."""
    return {name: results.record(f"data/trials/{name}.json")["texts"] for name in results.params.datasets}


def risks(curves: pl.DataFrame, exact: pl.DataFrame, texts: Mapping[str, int], trial_size: int = 2) -> pl.DataFrame:
    """Return the largest probability of guessing the source among CANDIDATES texts, and among all (`exact_loss.risk`).

    Columns RISKS: `chance` is over the compared pairs, `everywhere` over all pairs, null without a bound. curves:
    schema `EXACT_CURVES`; exact: schema `EXACT`; texts: the number in each data set; trial_size: candidates of a trial.
    """
    rows, laws = [], {tuple(row[name] for name in (*CELL, "pairs")): row for row in exact.to_dicts()}
    for (dataset, mechanism, epsilon, pairs), curve in curves.sort("level").group_by([*CELL, "pairs"]):
        law, every = laws[dataset, mechanism, epsilon, pairs], texts[str(dataset)]
        for k in sorted({*(k for k in CANDIDATES if k < every), every}):
            chance = largest_success_of_pairs(law, curve.select("level", "delta_high").iter_rows(), k)
            everywhere = largest_success_over_all(law, trial_size, k)
            rows.append((dataset, mechanism, epsilon, pairs, k, chance, everywhere))
    return pl.DataFrame(rows, schema=RISKS, orient="row").sort(*CELL, pl.col("pairs") != EQUAL, "candidates")


def risk_tables(risks: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per data set: the chance level, and a row per cell. risks: columns `RISKS`."""
    for (dataset,), part in risks.filter(pairs=ALL).group_by("dataset", maintain_order=True):
        guessing = {f"among {k:,}": of_100(1 / k) for k in part["candidates"].unique().sort()}
        rows = [{"mechanism": "guessing", "epsilon": "", **guessing}]
        for (mechanism, epsilon), row in part.group_by("mechanism", "epsilon", maintain_order=True):
            chances = {
                f"among {k:,}": f"{of_100(chance)}; {'unknown' if every is None else of_100(every)}"
                for k, chance, every in row.select("candidates", "chance", "everywhere").iter_rows()
            }
            rows.append({"mechanism": str(mechanism), "epsilon": budget(epsilon), **chances})
        caption = (
            "The largest number of right guesses of an adversary who sees one rewrite, knows the mechanism and picks "
            "the source among this number of texts. The first number is for the compared pairs, without an interval "
            "for other pairs; the second is for all pairs, at 99 %."
        )
        yield Table(f"Who is named among the texts of {dataset}", caption, rows, page_only=True)
