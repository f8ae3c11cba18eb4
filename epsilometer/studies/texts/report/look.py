"""What is worth a look besides losses: odd curves and outputs, other estimators, what attacks count."""

from __future__ import annotations

import polars as pl

from epsilometer.auditing.results.diagnostics import anomalies
from epsilometer.auditing.schemas import ESTIMATORS, OUTPUTS
from epsilometer.report.rows import strongest
from epsilometer.report.section import Section
from epsilometer.report.table import NAMED, Table, record, records
from epsilometer.report.wording import proved
from epsilometer.studies.texts.report.results import TextResults


def section(results: TextResults) -> Section | None:
    """What was found automatically, and the tables behind it."""
    outputs = results.table("data/outputs.parquet", OUTPUTS)
    if outputs.is_empty():
        return None
    estimates, estimators = results.estimates, results.table("data/estimators.parquet", ESTIMATORS)
    odd = anomalies(estimates, outputs)
    none = "No curve falls or stays flat beyond its intervals, no texts are hardly read, and no outputs are odd."
    some = "Each of these may have an innocent explanation, a large budget say; none proves anything."
    return Section(
        id="look",
        link="Oddities",
        heading="Worth a look",
        words=[some, *odd] if odd else [none],
        blocks=[looks(outputs), by_trials(estimates, estimators), counted(tallies(results))],
    )


def looks(outputs: pl.DataFrame) -> Table:
    """What the rewrites of each cell look like."""
    columns = NAMED + (
        " | composed epsilon: {composed:,.4g} | words: {words:.1f} | units: {units:.1f} | most units: {units_max} | "
        "unchanged: {unchanged:share} | empty: {empty:share} | same: {commonest:share} | signal: {signal:.2f} | "
        "unknown: {unknown_words:share} | cut: {cut_texts:share}"
    )
    rows = records(outputs.sort("dataset", "mechanism", "epsilon"), columns)
    caption = (
        "Composed: the claim for whole texts. Unchanged, empty, same: shares of rewrites equal to their source, "
        "without a word, and equal to the commonest; signal: the length of the latent over that of its noise; "
        "unknown, cut: shares of the words that the mechanism does not know and of the texts that it cuts."
    )
    return Table("What the rewrites look like", caption, rows, page_only=True)


def by_trials(estimates: pl.DataFrame, estimators: pl.DataFrame) -> Table:
    """For each cell at its largest budget, under its strongest attack: the loss by the number of trials."""
    cell = ["dataset", "mechanism", "epsilon", "attack"]
    ends = strongest(estimates).filter(
        pl.col("epsilon").eq_missing(pl.col("epsilon").max().over("dataset", "mechanism"))
    )
    shown = estimators.join(ends.select(cell), on=cell, nulls_equal=True).sort(*cell, "trials")
    rows = [
        record(part.row(-1, named=True), NAMED + " | attack: {attack}")
        | {f"T = {trials:,}": proved(loss) for trials, loss in part.select("trials", "loss").iter_rows()}
        | {"by rates": proved(part["by_rates"][-1])}
        for _, part in shown.group_by(cell, maintain_order=True)
    ]
    caption = (
        "The proven loss at the largest budget under the strongest attack, from the first trials alone and from all, "
        "beside the bound by rates (Arcolezi and Gambs 2024)."
    )
    return Table("Fewer trials, another estimator", caption, rows, folded=True, page_only=True)


def tallies(results: TextResults) -> pl.DataFrame:
    """What attacks counted while guessing, over all cells: attack, what, count."""
    rows = [
        (row["attack"], what.replace("_", " "), float(count))
        for name in results.params.cells
        for row in results.record(f"data/guesses/{name}.json")
        for what, count in row.items()
        if what not in ("attack", "epsilon")
    ]
    table = pl.DataFrame(rows, schema=["attack", "what", "count"], orient="row")
    return table.group_by("attack", "what", maintain_order=True).agg(pl.col("count").sum())


def counted(tallies: pl.DataFrame) -> Table:
    """What each attack counted while guessing, over all cells and budgets."""
    rows = records(tallies, "attack: {attack} | what: {what} | count: {count:,.10g}")
    return Table("What the attacks counted", "Over all cells and budgets.", rows, folded=True, page_only=True)
