"""Rows that several sections take from the audit's tables. Losses are in nats."""

from __future__ import annotations

from typing import Any

import polars as pl

from epsilometer.auditing.diagnostics import CHOSEN, STRONGEST
from epsilometer.auditing.schemas import OUTPUTS
from epsilometer.auditing.unread import much
from epsilometer.core.tables import Schema
from epsilometer.report.results import Results

CELL = ["dataset", "mechanism", "epsilon"]
OPTIMAL = "likelihood"  # the attack that no other can beat; it needs the mechanism's law
REACH = 10_000_000  # trials that nobody runs more of
DATASETS: Schema = {
    "dataset": pl.String,
    "source": pl.String,
    "public": pl.Boolean,
    "texts": pl.Int64,
    "duplicates_merged": pl.Int64,
    "empty_dropped": pl.Int64,
    "unmatched_dropped": pl.Int64,
    "cut": pl.Int64,
    "mean_words": pl.Float64,
    "match": pl.String,  # in what the candidates of a trial agree; null for nothing
    "distinct": pl.Int64,  # texts that serve as distractors
    "five_commonest": pl.Float64,  # the share of all distractors that the five commonest of them are
}


def strongest(estimates: pl.DataFrame, over: str = STRONGEST) -> pl.DataFrame:
    """A row a data set, mechanism and epsilon: the numbers of the row `over`, and the attack that they are of.

    over: STRONGEST, of what is released, or STRONGEST_INSIDE, of everything. optimal: False where the optimal adversary
    is not among the attacks on what is released, but among those on other mechanisms.
    """
    optimal = pl.col("released") & (pl.col("attack") == OPTIMAL)
    met = (
        estimates.filter(~pl.col("attack").is_in(CHOSEN))
        .with_columns(optimal=optimal.any().over(CELL) | ~optimal.any())
        .select(*CELL, "optimal")
        .unique()
    )
    rows = estimates.filter(attack=over).drop("attack").rename({"best_attack": "attack"})
    return rows.join(met, on=CELL, nulls_equal=True).sort(CELL)


def within_ceiling(estimates: pl.DataFrame) -> pl.DataFrame:
    """The estimates with loss, point and upper cut at the ceiling: nothing above it can be shown or compared."""
    return estimates.with_columns(pl.min_horizontal(c, "ceiling").alias(c) for c in ("loss", "point", "upper"))


def hardly_read_cells(outputs: pl.DataFrame) -> dict[tuple[str, str], list[str]]:
    """For each data set and mechanism that hardly takes in its texts: `80.0% of the words unknown`."""
    cells = outputs.sort("mechanism", "dataset").unique(["dataset", "mechanism"], keep="first", maintain_order=True)
    shares = {
        (row["dataset"], row["mechanism"]): much(row["unknown_words"], row["cut_texts"]) for row in cells.to_dicts()
    }
    return {cell: parts for cell, parts in shares.items() if parts}


def hardly_read(outputs: pl.DataFrame) -> dict[str, list[str]]:
    """The same for each mechanism, over the data sets: `queries: 80.0% of the words unknown`."""
    shares: dict[str, list[str]] = {}
    for (dataset, mechanism), parts in hardly_read_cells(outputs).items():
        shares.setdefault(mechanism, []).extend(f"{dataset}: {what}" for what in parts)
    return shares


def unread(results: Results) -> dict[tuple[str, str], list[str]]:
    """`hardly_read_cells` of all mechanisms but controls."""
    controls = results.estimates.filter("control")["mechanism"].unique().to_list()
    outputs = results.table("data/outputs.parquet", OUTPUTS)
    return hardly_read_cells(outputs.filter(~pl.col("mechanism").is_in(controls)))


def datasets(results: Results) -> pl.DataFrame:
    """Schema DATASETS: where texts come from, what was left out of them, and how many serve as distractors."""
    return pl.DataFrame([_dataset(results, name) for name in results.params.datasets], schema=dict(DATASETS))


def _dataset(results: Results, name: str) -> dict[str, Any]:
    settings, match = results.params.datasets[name], results.params.match(name)
    prepared, trials, embeddings = (
        results.record(f"data/{folder}/{name}.json") for folder in ("prepared", "trials", "embeddings")
    )
    return {
        "dataset": name,
        "source": settings.source if settings.part is None else f"{settings.source} ({settings.part})",
        "public": settings.public,
        "texts": trials["texts"],
        "duplicates_merged": prepared["duplicates_merged"],
        "empty_dropped": prepared["empty_dropped"],
        "unmatched_dropped": trials["unmatched_dropped"],
        "cut": embeddings["cut"],
        "mean_words": results.audited(name)["words"].mean(),
        "match": None if match == "none" else match,
        "distinct": trials["distinct"],
        "five_commonest": trials["five_commonest"],
    }
