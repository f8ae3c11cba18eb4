"""The strongest attack on each mechanism at each budget, and how much of it length alone proves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from epsilometer.auditing.results.diagnostics import STRONGEST_INSIDE
from epsilometer.report.rows import CELL, averages, strongest
from epsilometer.report.section import Fragment, Section
from epsilometer.report.wording import listed, proved, share
from epsilometer.studies.texts.report.datasets import datasets
from epsilometer.studies.texts.report.results import TextResults

LENGTH = "length"  # the attack that looks at the length of a rewrite and at nothing else
_FEW = 0.25  # the share of the five commonest distractors from which on an average is said to be one over few texts


def section(results: TextResults) -> Section:
    """Shaded tables of the largest loss that an attack on what is released proves."""
    estimates, described = results.estimates, datasets(results)
    return Section(
        id="strongest",
        link="Strongest",
        heading="The strongest attack",
        words=[
            "Large: the loss that the best attack **on what is released** proves, in nats, and darker where it is "
            "more; the brown part of the bar is how much of it the length of a text proves alone. Equal length: the "
            "same attack on trials whose candidates have equally many words; exact: the average loss between such "
            "texts, by the mechanism's law; inside: an attack on something that is not released.",
            " ".join(filter(None, (length_sentence(estimates), few_sentence(described)))),
        ],
        blocks=[
            Fragment(
                Path(__file__).with_suffix(".html.j2"),
                {"heat": heat(estimates, described, results.exact), "unread": results.unread},
            )
        ],
    )


def heat(estimates: pl.DataFrame, datasets: pl.DataFrame, exact: pl.DataFrame) -> list[dict[str, Any]]:
    """For each data set: mechanism by budget, smallest first -> the strongest attack on what is released.

    Beside it that of length, that among candidates of equal length, that of the strongest attack on everything, and the
    exact average by the law of what is released.
    """
    by_law = averages(exact)
    matched = dict(datasets.select("dataset", "match").iter_rows())
    length = estimates.filter(attack=LENGTH).select(*CELL, length="loss")
    inside = strongest(estimates, STRONGEST_INSIDE).filter(~pl.col("released")).select(*CELL, "sees", inside="loss")
    best = strongest(estimates).drop("sees")
    for more in (length, inside):
        best = best.join(more, on=CELL, how="left", nulls_equal=True)
    tables = []
    for (dataset,), table in best.sort("dataset", "control", *CELL[1:]).group_by("dataset", maintain_order=True):
        rows = {
            str(mechanism): [
                _cell(cell) | {"exact": by_law.get((dataset, mechanism, cell["epsilon"]))} for cell in cells.to_dicts()
            ]
            for (mechanism,), cells in table.group_by("mechanism", maintain_order=True)
        }
        tables.append({"dataset": dataset, "match": matched.get(dataset), "rows": rows})
    return tables


def _cell(best: dict[str, Any]) -> dict[str, Any]:
    length = best["length"]
    some = best["equal_loss"] is not None and best["equal_trials"] < best["trials"]
    return {
        **{name: best[name] for name in ("epsilon", "loss", "attack", "length", "equal_trials", "sees", "inside")},
        "equal": best["equal_loss"] if some else None,
        "part": min(1.0, length / best["loss"]) if length is not None and best["loss"] else 0.0,
        "full": min(1.0, best["loss"] / best["ceiling"]) if best["ceiling"] else 0.0,
    }


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
