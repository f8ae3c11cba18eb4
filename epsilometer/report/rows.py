"""Rows from the audit's tables that several sections use. Losses are in nats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.exact_loss.importance import AT_LEAST
from epsilometer.auditing.exact_loss.rows import EQUAL
from epsilometer.auditing.results.diagnostics import CHOSEN, STRONGEST
from epsilometer.auditing.trials.unread import much
from epsilometer.core.rounding import DOWN, NEAREST, UP, rounded
from epsilometer.report.wording import unbounded

CELL = ["dataset", "mechanism", "epsilon"]
OPTIMAL = "likelihood"  # the optimal attack; it needs the mechanism's law
REACH = 10_000_000  # any larger number of trials is considered impossible to run
# Mechanisms with a larger delta at 4 nats are not ranked. Otherwise a mechanism that publishes some texts unchanged
# would rank first at equal average loss.
TAIL_ALLOWED = 0.01


def strongest(estimates: pl.DataFrame) -> pl.DataFrame:
    """Return a row per data set, mechanism and epsilon: the strongest attack on the released views, and its numbers.

    optimal: False if the optimal adversary attacked other mechanisms but not this one.
    """
    optimal = pl.col("released") & (pl.col("attack") == OPTIMAL)
    met = (
        estimates.filter(~pl.col("attack").is_in(CHOSEN))
        .with_columns(optimal=optimal.any().over(CELL) | ~optimal.any())
        .select(*CELL, "optimal")
        .unique()
    )
    rows = estimates.filter(attack=STRONGEST).drop("attack").rename({"best_attack": "attack"})
    return rows.join(met, on=CELL, nulls_equal=True).sort(CELL)


def by_equal_length(exact: pl.DataFrame) -> pl.DataFrame:
    """Return a row per cell of the exact losses: over pairs of equal length; without such pairs, over all pairs.

    These figures compare mechanisms. If an output reveals the length of a text, texts of different lengths are always
    told apart, which says nothing about the rest of the mechanism.
    """
    first = exact.sort(*CELL, pl.col("pairs") != EQUAL)
    return first.unique(CELL, keep="first", maintain_order=True)


def exactly(row: Mapping[str, Any]) -> str:
    """Return the average of a row of `EXACT`: `11.68 ± 0.02`, `at least 8.20`.

    An error too small for two decimals is omitted.
    """
    if row["method"].startswith(AT_LEAST):
        return f"at least {unbounded(row['average_low'], DOWN)}"
    shown = unbounded(row["average"])
    if math.isinf(row["average"]) or row["error"] < 0.005:
        return shown
    # The error also covers the rounding of the average, so the shown interval contains the whole interval.
    away = abs(row["average"] - rounded(row["average"], 2, NEAREST))
    return f"{shown} ± {rounded(row['error'] + away, 2, UP):,.2f}"


def followed(exact: pl.DataFrame, estimates: pl.DataFrame) -> pl.DataFrame:
    """Return the exact losses of cells whose rewrites follow the law; for other cells, exact losses are wrong."""
    departed = estimates.filter("departs").select(CELL).unique()
    return exact.join(departed, on=CELL, how="anti", nulls_equal=True, maintain_order="left")


def tails(estimates: pl.DataFrame, exact: pl.DataFrame) -> pl.DataFrame:
    """Return a row per data set, mechanism and epsilon: the bounds on delta at 4 nats, `tail_low` and `tail`.

    With the law of the released view, both bounds are exact, over the pairs that compare mechanisms
    (`by_equal_length`). A law of latents gives only `tail`, which is an upper bound for the text. Without a law, or if
    rewrites depart from it, attacks give only `tail_low`, over all trials. A bound is null if it is unknown or not
    testable.
    """
    law = by_equal_length(followed(exact, estimates)).select(
        *CELL, "released", low="all_delta_at_4_low", tail="all_delta_at_4"
    )
    both = strongest(estimates).select(*CELL, "delta_at_4_low").join(law, on=CELL, how="left", nulls_equal=True)
    low = pl.when(pl.col("tail").is_null()).then("delta_at_4_low").when("released").then("low")
    return both.select(*CELL, tail_low=low, tail="tail")


def comparable(estimates: pl.DataFrame, exact: pl.DataFrame, alpha: float) -> pl.DataFrame:
    """Return the rows of `strongest` with the losses that compare mechanisms. exact: True for an exact average.

    With a law of the released view, `point` is the exact average over the compared pairs, and `loss` and `upper` are
    the bounds over all pairs, which decisions use. If the law gives only a lower bound, `loss` and `point` are this
    bound. Without a law, all three are from trials. If the data set has exact losses over pairs of equal length, only
    trials whose candidates have equally many words count; without such trials, all trials count. A law that the
    rewrites depart from is ignored. The rows also have `tail_low` and `tail` (`tails`). alpha: the audit's.
    """
    exact = followed(exact, estimates)
    laws = {tuple(row[name] for name in CELL): row for row in by_equal_length(exact.filter("released")).to_dicts()}
    matched = set(exact.filter(pairs=EQUAL)["dataset"])
    tests = estimates.filter(pl.col("released"), ~pl.col("attack").is_in(CHOSEN)).group_by(CELL).len("tests")
    best = strongest(estimates).join(tests, on=CELL, how="left", nulls_equal=True, maintain_order="left")

    def compared(row: dict[str, Any]) -> dict[str, Any]:
        law = laws.get(tuple(row[name] for name in CELL))
        upper = math.inf if law is None or law["all_high"] is None else law["all_high"]
        if law is not None and law["method"].startswith(AT_LEAST):
            low = law["average_low"]
            return {"loss": low, "point": low, "upper": upper, "ceiling": low, "exact": False}
        if law is not None:
            low = law["all_low"] or 0.0
            return {"point": law["average"], "loss": low, "upper": upper, "ceiling": math.inf, "exact": True}
        if row["dataset"] in matched and row["equal_trials"]:
            of = (row["equal_successes"], row["equal_trials"], row["candidates"], alpha / row["tests"])
            estimated = estimate(*of)
            return {
                "loss": estimated.loss,
                "point": estimated.point,
                "upper": estimated.upper,
                "ceiling": estimated.ceiling,
                "exact": False,
            }
        return {name: row[name] for name in ("loss", "point", "upper", "ceiling")} | {"exact": False}

    schema = {**dict.fromkeys(("loss", "point", "upper", "ceiling"), pl.Float64), "exact": pl.Boolean}
    losses = best.drop("tests").with_columns(*pl.DataFrame([compared(row) for row in best.to_dicts()], schema=schema))
    return losses.join(tails(estimates, exact), on=CELL, how="left", nulls_equal=True, maintain_order="left")


def unbeaten(
    point: Mapping[str, Any], others: Iterable[Mapping[str, Any]], of: Sequence[str], worth: str, loss: str
) -> bool:
    """Return True if a point is on the Pareto front: no other point is better in worth or loss, and no worse in either.

    of: points are compared only if they agree in these columns; worth, loss: the columns with these values.
    """
    return not any(
        all(other[name] == point[name] for name in of)
        and other[worth] >= point[worth]
        and other[loss] <= point[loss]
        and (other[worth], other[loss]) != (point[worth], point[loss])
        for other in others
    )


def within_ceiling(estimates: pl.DataFrame) -> pl.DataFrame:
    """Return the estimates with loss, point and upper clipped at the ceiling, above which trials prove no loss."""
    return estimates.with_columns(pl.min_horizontal(c, "ceiling").alias(c) for c in ("loss", "point", "upper"))


def unread(outputs: pl.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Return descriptions for each data set and each mechanism that hardly reads it: `80.0% of the words unknown`."""
    cells = outputs.sort("mechanism", "dataset").unique(["dataset", "mechanism"], keep="first", maintain_order=True)
    shares = {
        (row["dataset"], row["mechanism"]): much(row["unknown_words"], row["cut_texts"]) for row in cells.to_dicts()
    }
    return {cell: parts for cell, parts in shares.items() if parts}


def hardly_read(outputs: pl.DataFrame) -> dict[str, list[str]]:
    """Return the descriptions of `unread` by mechanism: `queries: 80.0% of the words unknown`."""
    shares: dict[str, list[str]] = {}
    for (dataset, mechanism), parts in unread(outputs).items():
        shares.setdefault(mechanism, []).extend(f"{dataset}: {what}" for what in parts)
    return shares
