"""The strongest attack on each mechanism at each budget, and how much of it length alone proves."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from epsilometer.report.rows import CELL, averages, strongest
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.report.wording import budget, listed, proved, share
from epsilometer.studies.texts.report.datasets import datasets
from epsilometer.studies.texts.report.results import TextResults

LENGTH = "length"  # the attack that looks at the length of a rewrite and at nothing else
_FEW = 0.25  # the share of the five commonest distractors from which on an average is said to be one over few texts


def section(results: TextResults) -> Section:
    """The largest loss that an attack on what is released proves, of each mechanism at each budget."""
    said = (length_sentence(results.estimates), few_sentence(datasets(results)))
    return Section("strongest", "Strongest", "The strongest attack", [*filter(None, said)], blocks=[*matrices(results)])


def matrices(results: TextResults) -> Iterator[Table]:
    """A table a data set: a row a mechanism, controls last, with its budgets from the smallest to the largest."""
    by_law, hardly = averages(results.exact), results.unread
    best = strongest(results.estimates).sort("dataset", "control", *CELL[1:])
    for (dataset,), table in best.group_by("dataset", maintain_order=True):
        rows = []
        for (mechanism,), cells in table.group_by("mechanism", maintain_order=True):
            row = {"mechanism": str(mechanism)}
            for number, cell in enumerate(cells.to_dicts(), start=1):
                exact = by_law.get((dataset, mechanism, cell["epsilon"]))
                aside = [f"ε {budget(cell['epsilon'])}", *([f"exact {exact}"] if exact else [])]
                aside += ["hardly read"] if (dataset, mechanism) in hardly else []
                row[f"budget {number}"] = f"{proved(cell['loss'])} ({', '.join(aside)})"
            rows.append(row)
        match = results.params.match(str(dataset))
        matched = "" if match == "none" else f"; candidates are matched by {match}"
        caption = (
            "The loss that the best attack on what is released proves, in nats, and in brackets the budget and the "
            f"exact average between texts of equal length{matched}."
        )
        yield Table(str(dataset), caption, rows, page_only=True)


def few_sentence(datasets: pl.DataFrame) -> str:
    """On which data sets an average over drawn pairs is one over pairs with few texts."""
    few = datasets.filter(pl.col("five_commonest") >= _FEW).sort("dataset")
    named = [
        f"{row['dataset']} ({row['distinct']:,} of {row['texts']:,}; five of them "
        f"{share(row['five_commonest'])} of the times)"
        for row in few.to_dicts()
    ]
    if not named:
        return ""
    return f"Few texts serve as distractors on {listed(named)}: losses there are averages over pairs with these few."


def length_sentence(estimates: pl.DataFrame) -> str:
    """For which mechanisms length alone tells the candidates apart at every budget."""
    lengths = estimates.filter(~pl.col("control"), attack=LENGTH)
    if not len(lengths):
        return "This audit ran no attack that looks at length alone."
    best = lengths.group_by("mechanism", "epsilon").agg(pl.max("loss"))
    every = best.group_by("mechanism").agg(pl.min("loss")).filter(pl.col("loss") > 0).sort("mechanism")
    if not len(every):
        return "There is no mechanism whose texts length alone tells apart at every budget."
    named = listed([f"{row['mechanism']} ({proved(row['loss'])})" for row in every.to_dicts()])
    return f"At every budget, length alone gives away at least: {named}."
