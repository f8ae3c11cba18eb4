"""What is worth a look besides losses: odd curves and outputs, other estimators, what attacks count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.results.diagnostics import anomalies
from epsilometer.auditing.schemas import DISAGREEMENTS, ESTIMATORS, OUTPUTS
from epsilometer.core.tables import Schema
from epsilometer.report.rows import strongest
from epsilometer.report.section import Section
from epsilometer.report.wording import nats
from epsilometer.studies.texts.report.results import TextResults

TALLIES: Schema = {"attack": pl.String, "what": pl.String, "count": pl.Float64}


def section(results: TextResults) -> Section | None:
    """What was found automatically, and the tables behind it."""
    outputs = results.table("data/outputs.parquet", OUTPUTS)
    if outputs.is_empty():
        return None
    estimates = results.estimates
    estimators = results.table("data/estimators.parquet", ESTIMATORS)
    return Section(
        id="look",
        link="Worth a look",
        template=Path(__file__).with_suffix(".html.j2"),
        context={
            "anomalies": anomalies(estimates, outputs),
            "outputs": outputs.sort("dataset", "mechanism", "epsilon").to_dicts(),
            "estimators": by_trials(estimates, estimators),
            "estimators_sentence": estimators_sentence(estimators),
            "tallies_sentences": tallies_sentences(tallies(results)),
            "disputes": disputes(results),
        },
    )


def by_trials(estimates: pl.DataFrame, estimators: pl.DataFrame) -> dict[str, Any]:
    """For each cell at its largest budget, under its strongest attack: the loss by the number of trials."""
    if not len(estimators):
        return {}
    cell = ["dataset", "mechanism", "epsilon", "attack"]
    ends = strongest(estimates).filter(
        pl.col("epsilon").eq_missing(pl.col("epsilon").max().over("dataset", "mechanism"))
    )
    shown = estimators.join(ends.select(cell), on=cell, nulls_equal=True).sort(*cell, "trials")
    rows = []
    for values, table in shown.group_by(cell, maintain_order=True):
        losses = dict(table.select("trials", "loss").iter_rows())
        rows.append(dict(zip(cell, values, strict=True)) | {"losses": losses, "by_rates": table["by_rates"][-1]})
    return {"trials": shown["trials"].unique().sort().to_list(), "rows": rows}


def estimators_sentence(estimators: pl.DataFrame) -> str:
    """How far apart the two estimators are, over all cells and attacks at the full number of trials."""
    cell = ["dataset", "mechanism", "epsilon", "attack"]
    full = estimators.filter(pl.col("trials") == pl.col("trials").max().over(cell))
    if not len(full):
        return ""
    apart = (full["loss"] - full["by_rates"]).abs().sort()
    return (
        f"Over {len(full)} estimates the reduced estimator and the one by true and false positive rates differ by "
        f"{nats(apart[len(apart) // 2])} nats in the median and by {nats(apart[-1])} at most."
    )


def tallies(results: TextResults) -> pl.DataFrame:
    """What attacks counted while guessing, over all cells: schema TALLIES."""
    rows = [
        {"attack": row["attack"], "what": what, "count": float(count)}
        for name in results.params.cells
        for row in results.record(f"data/guesses/{name}.json")
        for what, count in row.items()
        if what not in ("attack", "epsilon")
    ]
    table = pl.DataFrame(rows, schema=dict(TALLIES))
    return table.group_by("attack", "what", maintain_order=True).agg(pl.col("count").sum())


def tallies_sentences(tallies: pl.DataFrame) -> list[str]:
    """What each attack counted while guessing: `judge: asked 2,000, at random 3, ...`."""
    return [
        f"{attack}: " + ", ".join(f"{what.replace('_', ' ')} {count:,.10g}" for what, count in counts.iter_rows())
        for (attack,), table in tallies.group_by("attack", maintain_order=True)
        for counts in [table.select("what", "count")]
    ]


def disputes(results: TextResults) -> list[dict[str, Any]]:
    """Of every public data set and two attacks the cell with most disagreements, and one trial's texts."""
    disagreements = results.table("data/disagreements.parquet", DISAGREEMENTS)
    public = disagreements.filter(pl.col("dataset").is_in(results.public))
    most = public.sort("trials", descending=True, maintain_order=True).unique(
        ["dataset", "right", "wrong"], keep="first", maintain_order=True
    )
    rows = []
    for row in most.sort("dataset", "right", "wrong").to_dicts():
        dataset, trial = row["dataset"], row["trial"]
        trials, texts = results.trials(dataset), results.texts(dataset)
        source = trials.source[trial]
        other = next(i for i in trials.candidates[trial] if i != source)
        rewrite = results.rewrites(dataset, row["mechanism"], row["epsilon"])[trial]
        rows.append(row | {"source": texts[source], "rewrite": rewrite, "other": texts[other]})
    return rows
